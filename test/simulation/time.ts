import type { Clock } from "../../lib/index.ts";

/** Virtual time: it stands still while anything runs, and moves when the simulation says so. */
export class Time {
  /** Milliseconds since the epoch. */
  now: number;
  /** The database's clock is ahead by so many milliseconds. */
  databaseSkew = 0;
  readonly #timers = new Set<Timer>();
  #next = 0;

  constructor(now: number) {
    this.now = now;
  }

  /** Timers that may fire now, oldest first. */
  due(mayFire: (timer: Timer) => boolean): readonly Timer[] {
    return this.#sorted().filter((timer) => timer.at <= this.now && mayFire(timer));
  }

  /** When the next timer fires; undefined without any. */
  nextAt(counts: (timer: Timer) => boolean): number | undefined {
    return this.#sorted().find(counts)?.at;
  }

  /** `owner` stops with its process. */
  after(ms: number, owner: object, what: string, fire: () => void): Timer {
    const timer = { at: this.now + Math.max(0, ms), n: this.#next++, owner, what, fire };
    this.#timers.add(timer);
    return timer;
  }

  fire(timer: Timer): void {
    if (this.#timers.delete(timer)) timer.fire();
  }

  cancel(timer: Timer): void {
    this.#timers.delete(timer);
  }

  /** Nothing of this owner happens any more. */
  forget(owner: object): void {
    for (const timer of this.#timers) if (timer.owner === owner) this.#timers.delete(timer);
  }

  /** The clock of a process; `skew` says by how many milliseconds it is ahead. */
  clockOf(owner: object, skew: () => number): Clock {
    return {
      now: () => this.now + skew(),
      wait: (ms, signal) => {
        if (signal?.aborted) return Promise.resolve();
        return new Promise((resolve) => {
          const timer = this.after(ms, owner, "timer", resolve);
          signal?.addEventListener("abort", () => {
            this.cancel(timer);
            resolve();
          });
        });
      },
    };
  }

  #sorted(): readonly Timer[] {
    return [...this.#timers].sort((a, b) => a.at - b.at || a.n - b.n);
  }
}

export interface Timer {
  readonly at: number;
  readonly n: number;
  readonly owner: object;
  readonly what: string;
  readonly fire: () => void;
}
