/* Long polls wait here until something may have become visible. */

import { setMaxListeners } from "node:events";

/** Waiting receivers by queue. A wake-up only means "look again"; who looks may find nothing. */
export class WakeUps {
  readonly #waiters = new Map<string, Set<() => void>>();

  /** Wakes all receivers of a queue now. */
  wake(queue: string): void {
    for (const wake of this.#waiters.get(queue) ?? []) wake();
  }

  /** Wakes them when a delay or a visibility timeout of so many seconds has passed. */
  wakeIn(queue: string, seconds: number): void {
    if (seconds <= 0) {
      this.wake(queue);
      return;
    }
    // Two milliseconds more, because timers may fire early and the message would still be hidden.
    setTimeout(() => this.wake(queue), seconds * 1000 + 2).unref();
  }

  /** Waits for the next wake-up of a queue, at most so long; sooner when the signal aborts. */
  wait(queue: string, milliseconds: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted || milliseconds <= 0) return Promise.resolve();
    if (signal) setMaxListeners(0, signal);
    const waiters = this.#waiters.get(queue) ?? new Set();
    this.#waiters.set(queue, waiters);
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        waiters.delete(done);
        signal?.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, milliseconds);
      waiters.add(done);
      signal?.addEventListener("abort", done);
    });
  }
}
