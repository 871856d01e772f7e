import { load } from "../mutations/load.ts";
import type { Mutation } from "../mutations/mutation.ts";
import { NamedTests } from "../mutations/named-tests.ts";
import { isRight, judged, type Outcome, outcomeOf, report, summarize } from "../mutations/outcome.ts";
import { SourceCopy } from "../mutations/source-copy.ts";
import type { TestServer } from "../support/test-server.ts";
import { textTable } from "../support/text-table.ts";
import { campaign } from "./campaign.ts";
import { Pool } from "./pool.ts";

/** For each guard that is taken out. */
export const MUTATION_SEEDS = 4;

/** Without the token guard an invariant breaks long before this. */
const PROOF_SEEDS = 300;
const TOKEN_GUARD = "only the holder's answer is accepted";

export interface MutateOptions {
  readonly seeds: number;
  /** Processes that simulate side by side. */
  readonly workers: number;
  readonly signal: AbortSignal;
}

/**
 * Takes out every guard of the statements and of the engine, one by one, and says what noticed: a seed, one of the tests
 * that are named beside the guard, or both. @returns the process's exit code
 */
export async function mutateAll(server: TestServer, names: readonly string[], options: MutateOptions): Promise<number> {
  const mutations = (await load(names)).filter(isSimulated);
  await using copy = await SourceCopy.make();
  await using tests = await NamedTests.start(copy);
  await tests.mustPass(mutations);
  const rows: (readonly [guard: string, seed: string, test: string])[] = [];
  const outcomes: Outcome[] = [];
  for (const mutation of mutations) {
    if (options.signal.aborted) break;
    const { bySeed, byTest } = await tryBoth(server, copy, tests, mutation, options);
    const outcome = judged(mutation, bySeed.kind === "caught" ? bySeed : byTest);
    outcomes.push(outcome);
    report(mutation, outcome);
    rows.push([`${mutation.file}: ${mutation.guard}`, inShort(bySeed), testOr(mutation, outcome, byTest)]);
    console.log(`  ${rows.length} of ${mutations.length}`);
  }
  console.log(`\n${textTable(["guard", "caught by a seed", "caught by a test, or why not"], rows)}`);
  const bySeeds = rows.filter(([, seed]) => seed !== NOT).length;
  console.log(`${bySeeds} of ${rows.length} caught by a seed`);
  return summarize(outcomes);
}

/** Nothing else is simulated. */
const isSimulated = ({ file }: Mutation): boolean => /^lib\/(sql|engine)\//.test(file);

const NOT = "-";
const FAILED = "NOT CAUGHT";
const inShort = (outcome: Outcome): string => (outcome.kind === "caught" ? outcome.by : NOT);

function testOr({ reason }: Mutation, outcome: Outcome, byTest: Outcome): string {
  if (outcome.kind === "covered") return `covered: ${reason}`;
  return isRight(outcome) ? inShort(byTest) : FAILED;
}

/** The seeds and the tests at the same time: each leaves a processor idle now and then. */
async function tryBoth(
  server: TestServer,
  copy: SourceCopy,
  tests: NamedTests,
  mutation: Mutation,
  options: MutateOptions,
): Promise<{ readonly bySeed: Outcome; readonly byTest: Outcome }> {
  try {
    return await copy.without(
      mutation,
      async () => {
        const [bySeed, byTest] = await Promise.all([simulateCopy(server, copy, options), tests.of(mutation)]);
        return { bySeed, byTest };
      },
      (path) => tests.changed(path),
    );
  } catch (error) {
    const outcome: Outcome = { kind: "error", why: String(error) };
    return { bySeed: outcome, byTest: outcome };
  }
}

/** Takes the guard out that everything rests upon: an apply writes whether it holds the row or not. */
export async function withoutTokenGuard(server: TestServer, workers: number, signal: AbortSignal): Promise<Outcome> {
  const [mutation] = (await load(["apply"])).filter(({ guard }) => guard === TOKEN_GUARD);
  await using copy = await SourceCopy.make();
  return await copy.without(mutation!, () => simulateCopy(server, copy, { seeds: PROOF_SEEDS, workers, signal }));
}

/** Simulates what stands in the copy, until an invariant breaks or the seeds are at their end. */
async function simulateCopy(
  server: TestServer,
  copy: SourceCopy,
  { seeds, workers, signal }: MutateOptions,
): Promise<Outcome> {
  try {
    await using pool = await Pool.start(server, Math.min(workers, seeds), copy.root);
    const { failed } = await campaign(pool, Math.min(workers, seeds), { from: 1, seeds, mostFailures: 1, signal });
    const [first] = failed;
    if (first === undefined) return { kind: "survived" };
    return outcomeOf(first.violations.join("\n"), `seed ${first.seed}: ${first.violations[0]!.split(/\n| \(/)[0]}`);
  } catch (error) {
    return { kind: "error", why: String(error) };
  }
}
