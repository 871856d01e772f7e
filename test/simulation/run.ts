/* `npm run simulate`: the real statements in virtual time, everything decided by a seed. */

import { Command, InvalidArgumentError } from "commander";
import type { TestServer } from "../support/test-server.ts";
import { textTable } from "../support/text-table.ts";
import { type Campaign, campaign, perSecond } from "./campaign.ts";
import type { Made } from "./messages.ts";
import { MUTATION_SEEDS, mutateAll, withoutTokenGuard } from "./mutate.ts";
import { Pool, withServer } from "./pool.ts";
import { shrink } from "./shrink.ts";

interface Options {
  readonly seeds?: number;
  readonly from: number;
  readonly workers: number;
  readonly tell: boolean;
  readonly shrink: boolean;
  readonly proof: boolean;
  readonly mutate?: true | readonly string[];
}

/** The steps of a failing run that are shown. */
const MOST_LINES = 120;
const SEEDS = 200;

function whole(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (Number.isInteger(value) && value >= least) return value;
    throw new InvalidArgumentError(`a whole number from ${least} on.`);
  };
}

const say = (line: string) => void process.stdout.write(`${line}\n`);

async function main(): Promise<number> {
  const options = new Command("npm run simulate --")
    .description(
      "Runs the real statements and the real engine against PostgreSQL in virtual time, with crashes, lost answers, duplicates, delays and jumping clocks, all decided by a seed; checks the invariants after each commit, and that everything is done when the faults stop. At the end takes the token guard out of a copy, which must be noticed.",
    )
    .option(
      "--seeds <n>",
      `how many seeds (default: ${SEEDS}; with --mutate ${MUTATION_SEEDS} for each guard)`,
      whole(1),
    )
    .option("--from <n>", "the first seed; --seeds 1 --from n repeats one", whole(0), 1)
    .option("--workers <n>", "processes that simulate side by side", whole(1), 2)
    .option("--tell", "print every step of the first seed", false)
    .option("--no-shrink", "show a failing seed as it is")
    .option("--no-proof", "leave out the last step, the missing token guard")
    .option(
      "--mutate [names...]",
      "take out each guard, or those of the named files of test/mutations/guards, one by one",
    )
    .parse()
    .opts<Options>();
  const interrupted = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.on(signal, () => {
      if (interrupted.signal.aborted) process.exit(130);
      interrupted.abort();
    });
  const code = await withServer((server) => {
    const { workers, mutate, seeds } = options;
    const { signal } = interrupted;
    if (mutate === undefined) return simulateSeeds(server, options, signal);
    const names = mutate === true ? [] : mutate;
    // the named tests run beside
    return mutateAll(server, names, { workers: Math.max(1, workers - 1), signal, seeds: seeds ?? MUTATION_SEEDS });
  });
  return interrupted.signal.aborted ? 130 : code;
}

async function simulateSeeds(server: TestServer, options: Options, signal: AbortSignal): Promise<number> {
  const { seeds = SEEDS, from, shrink: less, proof, tell } = options;
  const workers = Math.min(options.workers, seeds);
  await using pool = await Pool.start(server, workers);
  if (tell) for (const line of (await pool.run({ seed: from, tell })).story) say(line);
  const found = await campaign(pool, workers, { from, seeds, mostFailures: 5, signal, progress: say });
  const [first] = found.failed;
  const noticed = !proof || first !== undefined || signal.aborted || (await prove(server, workers, signal));
  report(found);
  if (first !== undefined) await explain(pool, first, less);
  return first === undefined && noticed ? 0 : 1;
}

/** What finds nothing could be blind. */
async function prove(server: TestServer, workers: number, signal: AbortSignal): Promise<boolean> {
  say("\ntaking the token guard out of a copy …");
  const outcome = await withoutTokenGuard(server, workers, signal);
  if (outcome.kind === "caught") say(`without the token guard: caught by ${outcome.by}`);
  else say(`FAILED  without the token guard: ${outcome.kind === "error" ? outcome.why : outcome.kind}`);
  return outcome.kind === "caught";
}

function report({ seeds, steps, statements, accepted, faults, seconds, failed }: Campaign): void {
  const rows: [string, number][] = [
    ["seeds", seeds],
    ["steps", steps],
    ["statements", statements],
    ["accepted passes", accepted],
    ...[...faults].sort(([a], [b]) => (a < b ? -1 : 1)).map(([kind, n]): [string, number] => [`fault: ${kind}`, n]),
  ];
  say(`\n${textTable(["what", "count"], rows)}`);
  say(`${perSecond(seeds, seconds * 1000)} seeds/s, ${seconds.toFixed(0)} s`);
  for (const { seed, violations } of failed) say(`FAILED  seed ${seed}: ${violations[0]}`);
  say(`${seeds - failed.length} passed, ${failed.length} failed`);
}

/** Shows what happened, as little of it as is needed. */
async function explain(pool: Pool, made: Made, less: boolean): Promise<void> {
  let shown = made;
  if (less) {
    say(`\nmaking seed ${made.seed} smaller (Ctrl-C to stop) …`);
    shown = await shrink(made, (choices) => pool.run({ seed: made.seed, choices, tell: true }));
  }
  say(
    `\nseed ${made.seed}, ${shown.choices.filter((c) => c !== 0).length} decisions that matter, ${shown.story.length} lines:`,
  );
  for (const line of shown.story.slice(-MOST_LINES)) say(line);
  say(`\nagain: npm run simulate -- --seeds 1 --from ${made.seed}`);
}

process.exitCode = await main();
