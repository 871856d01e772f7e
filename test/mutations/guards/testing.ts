import type { Mutation } from "../mutation.ts";
import { mutations as apply } from "./apply.ts";
import { mutations as end } from "./end.ts";
import { mutations as fetch } from "./fetch.ts";
import { mutations as related } from "./related.ts";
import { mutations as relatedAnswers } from "./related-answers.ts";

const things = ["test/integration/testing/describe-things.test.ts"];
const relatedTables = ["test/integration/testing/describe-related.test.ts"];

/** Guards that the tests of `describePipeline` must miss too, whoever's pipeline they describe. */
const missed = (all: readonly Mutation[], guards: readonly string[], tests: readonly string[]): readonly Mutation[] =>
  guards.map((guard) => {
    const found = all.find((mutation) => mutation.guard === guard);
    if (found === undefined) throw new Error(`no mutation takes out: ${guard}`);
    return { ...found, tests };
  });

export const mutations: readonly Mutation[] = [
  ...missed(
    fetch,
    [
      "only due rows are fetched",
      "a live lock is respected",
      "another pipeline's owner is respected, its lock expired or not",
      "our own owner does not shut us out",
      "the longest due comes first",
    ],
    things,
  ),
  ...missed(end, ["at contention the owner stays"], relatedTables),
  ...missed(apply, ["only the holder's answer is accepted", "last_processed_at says when a pass was applied"], things),
  ...missed(related, ["a live lock is respected", "all or none"], relatedTables),
  ...missed(
    relatedAnswers,
    [
      "a row that is given back keeps its owner",
      "related rows are patched by accepted answers only",
      "an accepted answer clears the item's list",
    ],
    relatedTables,
  ),
];
