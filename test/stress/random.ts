/** Numbers that a seed repeats. */
export interface Random {
  /** 0 to just under 1. */
  next(): number;
  /** A whole number from 0 to just under `n`. */
  below(n: number): number;
  /** True in so many of a hundred cases. */
  percent(n: number): boolean;
  pick<T>(list: readonly T[]): T;
  /** At most `n` different ones, in any order. */
  some<T>(list: readonly T[], n: number): T[];
}

/** Mulberry32: small, and good enough to choose what to do next. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
  const below = (n: number) => Math.floor(next() * n);
  return {
    next,
    below,
    percent: (n) => next() * 100 < n,
    pick: (list) => list[below(list.length)]!,
    some(list, n) {
      const rest = [...list];
      const chosen = [];
      while (chosen.length < n && rest.length > 0) chosen.push(...rest.splice(below(rest.length), 1));
      return chosen;
    },
  };
}
