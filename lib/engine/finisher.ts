import type { Clock } from "./ports.ts";

/** Passes that end within this time are written together. */
const LINGER_MS = 15;

/**
 * Collects what ends at about the same time into one flush. A flush starts when everything that runs has ended, or a
 * moment after the first ending; what ends while one is written goes into the next.
 */
export interface Finisher<T> {
  /** Resolves when the flush that holds it was written. */
  add(value: T): Promise<void>;
}

/** `running` says how many passes have not ended yet. */
export function finisher<T>(
  clock: Clock,
  running: () => number,
  flush: (values: readonly T[]) => Promise<void>,
): Finisher<T> {
  let pending: T[] = [];
  let current: Promise<void> | undefined;

  const next = async () => {
    await Promise.resolve();
    if (running() > 0) await clock.wait(LINGER_MS);
    const values = pending;
    pending = [];
    current = undefined;
    const written = flush(values);
    last = written;
    await written;
  };
  let last: Promise<void> = Promise.resolve();

  return {
    add(value) {
      pending.push(value);
      current ??= last.then(next, next);
      return current;
    },
  };
}
