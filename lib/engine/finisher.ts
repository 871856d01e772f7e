import type { Clock } from "./ports.ts";

/** Passes that end within this time are written together. */
const LINGER_MS = 15;

/** A flush that somebody's lock holds up does not hold up the next for longer. */
const PATIENCE_MS = 500;

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

  const turn = async () => {
    const waited = new AbortController();
    await Promise.race([last.catch(() => undefined), clock.wait(PATIENCE_MS, waited.signal)]);
    waited.abort();
  };

  return {
    add(value) {
      pending.push(value);
      current ??= turn().then(next);
      return current;
    },
  };
}
