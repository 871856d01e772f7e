/*
 * Takes out one guard after the other, in a copy of the repository, and runs the tests that should notice. A mutation
 * that only breaks the SQL or the program proves nothing about a guard: it counts as an error, as does one whose text is
 * not found. One with a `reason` must survive: another guard covers it. Ends with 1 unless all is as it must be.
 */

import { Command } from "commander";
import { load } from "./load.ts";
import type { Mutation } from "./mutation.ts";
import { NamedTests } from "./named-tests.ts";
import { judged, type Outcome, report, summarize } from "./outcome.ts";
import { SourceCopy } from "./source-copy.ts";

async function main(mutations: readonly Mutation[]): Promise<number> {
  await using copy = await SourceCopy.make();
  await using tests = await NamedTests.start(copy);
  await tests.mustPass(mutations);
  const outcomes: Outcome[] = [];
  for (const mutation of mutations) {
    const outcome = judged(mutation, await tests.try(mutation));
    outcomes.push(outcome);
    report(mutation, outcome);
  }
  return summarize(outcomes);
}

const program = new Command("node test/mutations/run.ts")
  .description(
    "Takes out one guard after the other, in a copy of the repository, and runs the tests that should notice; ends with 1 unless each is noticed, or covered by another guard that is named.",
  )
  .argument("[names...]", "files of test/mutations/guards; a name means also those that begin with it and a dash")
  .parse();
const mutations = await load(program.args).catch((error: Error) => program.error(error.message));
process.exitCode = await main(mutations);
