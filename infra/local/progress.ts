/* What a start is doing, with times. */

export interface Progress {
  /** Says that a step begins, runs it, and says how long it took. */
  step<T>(what: string, run: () => Promise<T>): Promise<T>;
  note(text: string): void;
  /** Seconds of each step so far. */
  readonly seconds: ReadonlyMap<string, number>;
}

/** Progress as lines to `write`, each with the seconds since the start. */
export function createProgress(write: (line: string) => void): Progress {
  const startedAt = performance.now();
  const seconds = new Map<string, number>();
  const since = (from: number) => (performance.now() - from) / 1000;
  const line = (text: string) => write(`${since(startedAt).toFixed(1).padStart(5)} s  ${text}`);
  return {
    seconds,
    note: line,
    async step(what, run) {
      const from = performance.now();
      line(`${what} ...`);
      const result = await run();
      seconds.set(what, since(from));
      line(`${what}: done in ${since(from).toFixed(1)} s`);
      return result;
    },
  };
}
