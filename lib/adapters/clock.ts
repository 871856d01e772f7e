import type { Clock } from "../engine/ports.ts";

/** The process's own time, for waiting. */
export const systemClock: Clock = {
  now: () => Date.now(),
  wait(ms, signal) {
    if (signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", end);
        resolve();
      };
      const timer = setTimeout(end, ms);
      signal?.addEventListener("abort", end);
    });
  },
};
