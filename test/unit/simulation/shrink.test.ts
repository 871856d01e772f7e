import { expect, test } from "vitest";
import { listedChoices, seededChoices } from "../../simulation/choices.ts";
import type { Made } from "../../simulation/messages.ts";
import { shrink } from "../../simulation/shrink.ts";

const made = (choices: readonly number[], violations: readonly string[]): Made => ({
  seed: 1,
  violations,
  steps: 0,
  statements: 0,
  accepted: 0,
  faults: [],
  choices,
  story: [],
});

test("a failing run becomes the few decisions that matter", async () => {
  // a 3 and somewhere after it a 2 break the rule
  const run = async (choices: readonly number[]) => {
    const at = choices.indexOf(3);
    return made(choices, at >= 0 && choices.indexOf(2, at) > at ? ["fenced: a row (claim, things 1)"] : []);
  };
  const failing = await run([1, 0, 4, 3, 1, 1, 0, 5, 2, 1, 1, 0, 7, 3, 2, 0, 1]);
  expect((await shrink(failing, run)).choices).toEqual([3, 2]);
});

test("another failure than the one that is explained does not count", async () => {
  const run = async (choices: readonly number[]) =>
    made(choices, choices.includes(3) ? ["fenced: x (1)"] : ["locks: y (2)"]);
  expect((await shrink(await run([1, 3, 1]), run)).choices).toEqual([3]);
});

test("it ends where every trial fails", async () => {
  let trials = 0;
  const run = async (choices: readonly number[]) => {
    trials += 1;
    return made(choices, choices.length > 990 ? ["locks: y"] : []);
  };
  await shrink(await run(Array.from({ length: 1_000 }, () => 1)), run);
  expect(trials).toBeLessThanOrEqual(401);
});

test("a list of what was chosen chooses the same again, and nothing eventful after its end", () => {
  const weights = [[1, 2, 3], [0, 1], [5], [1, 0, 1]];
  const seeded = seededChoices(42);
  const chosen = [...weights, ...weights].map((w) => seeded.choose(w));
  const listed = listedChoices(seeded.taken);
  expect([...weights, ...weights].map((w) => listed.choose(w))).toEqual(chosen);
  expect(weights.map((w) => listed.choose(w))).toEqual([0, 1, 0, 0]);
});

test("an option of weight 0 is never chosen, whatever a list says", () => {
  expect(listedChoices([1]).choose([1, 0, 1])).toBe(0);
  expect(listedChoices([9]).choose([0, 0, 1])).toBe(2);
  for (let seed = 0; seed < 200; seed++) expect(seededChoices(seed).choose([0, 1, 0, 1]) % 2).toBe(1);
});
