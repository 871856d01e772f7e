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
export const MUTATION_SEEDS = 6;

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
 * Takes out every guard of the statements and of the engine, one by one, and says what noticed: a seed, or else one of
 * the tests that are named beside the guard. @returns the process's exit code
 */
export async function mutateAll(server: TestServer, names: readonly string[], options: MutateOptions): Promise<number> {
  const mutations = (await load(names)).filter(isSimulated);
  await using copy = await SourceCopy.make();
  await using tests = await NamedTests.start(copy);
  await tests.mustPass(mutations);
  const outcomes: (readonly [Mutation, Outcome])[] = [];
  for (const mutation of mutations) {
    if (options.signal.aborted) break;
    const simulated = await simulateWithout(server, copy, mutation, options);
    const outcome = judged(mutation, simulated.kind === "caught" ? simulated : await tests.try(mutation));
    outcomes.push([mutation, outcome]);
    report(mutation, outcome);
  }
  const rows = outcomes.map(([{ file, guard }, outcome]): [string, string] => [`${file}: ${guard}`, inShort(outcome)]);
  console.log(`\n${textTable(["guard", "caught by"], rows)}`);
  const bySeeds = outcomes.filter(([, o]) => o.kind === "caught" && o.by.startsWith("seed ")).length;
  console.log(`${bySeeds} of ${mutations.length} caught by a seed, the others by a test`);
  return summarize(outcomes.map(([, outcome]) => outcome));
}

/** Nothing else is simulated. */
const isSimulated = ({ file }: Mutation): boolean => /^lib\/(sql|engine)\//.test(file);

const inShort = (outcome: Outcome): string => {
  if (outcome.kind === "caught") return outcome.by;
  return isRight(outcome) ? "another guard covers it" : outcome.kind.toUpperCase();
};

/** Takes the guard out that everything rests upon: an apply writes whether it holds the row or not. */
export async function withoutTokenGuard(server: TestServer, workers: number, signal: AbortSignal): Promise<Outcome> {
  const [mutation] = (await load(["apply"])).filter(({ guard }) => guard === TOKEN_GUARD);
  await using copy = await SourceCopy.make();
  return await simulateWithout(server, copy, mutation!, { seeds: PROOF_SEEDS, workers, signal });
}

/** Simulates without a guard, until an invariant breaks or the seeds are at their end. */
async function simulateWithout(
  server: TestServer,
  copy: SourceCopy,
  mutation: Mutation,
  { seeds, workers, signal }: MutateOptions,
): Promise<Outcome> {
  try {
    return await copy.without(mutation, async () => {
      await using pool = await Pool.start(server, Math.min(workers, seeds), copy.root);
      const { failed } = await campaign(pool, Math.min(workers, seeds), { from: 1, seeds, mostFailures: 1, signal });
      const [first] = failed;
      if (first === undefined) return { kind: "survived" };
      return outcomeOf(first.violations.join("\n"), `seed ${first.seed}: ${first.violations[0]!.split("\n")[0]}`);
    });
  } catch (error) {
    return { kind: "error", why: String(error) };
  }
}
