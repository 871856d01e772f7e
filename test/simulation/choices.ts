import { type Random, seededRandom } from "../stress/random.ts";

/**
 * Where everything that happens is decided. Option 0 of every choice is what happens when nothing goes wrong, so that a
 * list of zeros is an uneventful run: a failing list is made readable by turning numbers into zeros.
 */
export interface Choices {
  /** The index of one of the weights; an option of weight 0 is never taken. */
  choose(weights: readonly number[]): number;
  /** What was chosen so far. */
  readonly taken: readonly number[];
}

/** Chooses by a seed. */
export function seededChoices(seed: number): Choices {
  const random: Random = seededRandom(seed);
  const taken: number[] = [];
  return {
    taken,
    choose(weights) {
      const sum = weights.reduce((a, b) => a + b, 0);
      let at = random.next() * sum;
      let index = weights.findIndex((weight) => {
        at -= weight;
        return at < 0;
      });
      if (index < 0) index = weights.findLastIndex((weight) => weight > 0);
      taken.push(index);
      return index;
    },
  };
}

/** Chooses what a list says, and 0 where it ends or names an option that there is not. */
export function listedChoices(list: readonly number[]): Choices {
  const taken: number[] = [];
  return {
    taken,
    choose(weights) {
      const wanted = list[taken.length] ?? 0;
      const index =
        (weights[wanted] ?? 0) > 0
          ? wanted
          : Math.max(
              0,
              weights.findIndex((weight) => weight > 0),
            );
      taken.push(index);
      return index;
    },
  };
}
