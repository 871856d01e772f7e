/*
 * node test/mutations/run.ts [name …]    a name means also the files that begin with it and a dash
 *
 * Takes out one guard after the other, in a copy of the repository, and runs the tests that should notice. A mutation
 * that only breaks the SQL or the program proves nothing about a guard: it counts as an error, as does one whose text is
 * not found. One with a `reason` must survive: another guard covers it. Ends with 1 unless all is as it must be.
 */

import { load } from "./load.ts";
import { NamedTests } from "./named-tests.ts";
import { judged, type Outcome, report, summarize } from "./outcome.ts";
import { SourceCopy } from "./source-copy.ts";

async function main(names: readonly string[]): Promise<number> {
  const mutations = await load(names);
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

process.exitCode = await main(process.argv.slice(2));
