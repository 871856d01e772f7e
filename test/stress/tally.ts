/** Counts by name. */
export interface Tally {
  add(what: string, n?: number): void;
  of(what: string): number;
  /** The sum of all counts whose name begins so. */
  sum(prefix: string): number;
  /** By name, in alphabetical order. */
  entries(): readonly (readonly [string, number])[];
}

export function createTally(): Tally {
  const counts = new Map<string, number>();
  return {
    add: (what, n = 1) => void counts.set(what, (counts.get(what) ?? 0) + n),
    of: (what) => counts.get(what) ?? 0,
    sum: (prefix) => [...counts].reduce((sum, [what, n]) => sum + (what.startsWith(prefix) ? n : 0), 0),
    entries: () => [...counts].sort(([a], [b]) => (a < b ? -1 : 1)),
  };
}
