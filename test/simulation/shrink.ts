import type { Made } from "./messages.ts";

/** Trials for one failure. */
const MOST_TRIALS = 400;

/**
 * Makes a failing list of choices shorter and calmer, as long as it still fails: cuts its end off, takes pieces out, and
 * turns numbers into 0, which is what happens when nothing goes wrong.
 */
export async function shrink(
  failing: Made,
  run: (choices: readonly number[]) => Promise<Made>,
  progress: (made: Made, trials: number) => void = () => undefined,
): Promise<Made> {
  let best = failing;
  let trials = 0;
  const tryOne = async (choices: readonly number[]): Promise<boolean> => {
    if (trials >= MOST_TRIALS) return false;
    trials += 1;
    const made = await run(choices);
    if (made.violations.length === 0 || kindOf(made) !== kindOf(failing)) return false;
    best = { ...made, choices: trimmed(made.choices) };
    progress(best, trials);
    return true;
  };
  best = { ...best, choices: trimmed(best.choices) };
  for (let size = Math.ceil(best.choices.length / 2); size > 0; size = Math.floor(size / 2)) {
    for (let at = 0; at < best.choices.length && trials < MOST_TRIALS; ) {
      const { choices } = best;
      const without = [...choices.slice(0, at), ...choices.slice(at + size)];
      const calm = choices.map((choice, n) => (n >= at && n < at + size ? 0 : choice));
      if (await tryOne(without)) continue;
      if (calm.some((choice, n) => choice !== choices[n])) await tryOne(calm);
      at += size;
    }
  }
  return best;
}

/** Zeros at the end say nothing. */
const trimmed = (choices: readonly number[]): readonly number[] =>
  choices.slice(0, choices.findLastIndex((choice) => choice !== 0) + 1);

/** The rule that was broken, without the rows. */
const kindOf = ({ violations }: Made): string => (violations[0] ?? "").split(/[(:;]/)[0]!;
