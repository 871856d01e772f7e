import type { Clock } from "../../lib/index.ts";

/** Time that only the test moves. */
export interface DrivenClock extends Clock {
  /** The waits under way, in milliseconds from now, soonest first. */
  waits(): readonly number[];
  /** Moves on. Each wait ends at its moment, and what it sets going runs before the next one ends. */
  advance(ms: number): Promise<void>;
}

export function drivenClock(start = Date.parse("2026-01-01T00:00:00Z")): DrivenClock {
  let now = start;
  const open = new Set<{ readonly at: number; readonly end: () => void }>();
  const soonest = () => [...open].sort((a, b) => a.at - b.at);
  return {
    now: () => now,
    wait(ms, signal) {
      if (signal?.aborted) return Promise.resolve();
      return new Promise((resolve) => {
        const one = {
          at: now + ms,
          end: () => {
            open.delete(one);
            resolve();
          },
        };
        open.add(one);
        signal?.addEventListener("abort", one.end);
      });
    },
    waits: () => soonest().map(({ at }) => at - now),
    async advance(ms) {
      const target = now + ms;
      for (;;) {
        await settled();
        const [next] = soonest();
        if (next === undefined || next.at > target) break;
        now = Math.max(now, next.at);
        next.end();
      }
      now = target;
      await settled();
    },
  };
}

/** Lets everything run that waits for no timer and no network. */
export const settled = () => new Promise<void>((resolve) => setImmediate(resolve));
