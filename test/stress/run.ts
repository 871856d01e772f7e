/* `npm run stress`: many statements at once on few rows, and what is left of the invariants. */

import { Command, InvalidArgumentError } from "commander";
import { textTable } from "../support/text-table.ts";
import { stress } from "./stress.ts";

interface Options {
  readonly minutes: number;
  readonly connections: number;
  readonly seed: number;
  readonly foreignKeys: boolean;
}

/** Of what one check found wrong, so many lines are shown. */
const MOST_WRONG = 5;

function number(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (Number.isFinite(value) && value >= least) return value;
    throw new InvalidArgumentError(`a number from ${least} on.`);
  };
}

async function main(): Promise<number> {
  const { minutes, connections, seed, foreignKeys } = new Command("npm run stress --")
    .description("Sends the statements of the protocol from many connections at a few rows, and checks what is left.")
    .option("--minutes <n>", "how long the mix runs", number(0.01), 3)
    .option("--connections <n>", "half through the Data API, half through pg", number(2), 24)
    .option("--seed <n>", "what the actors choose (default: any)", number(0), Math.floor(Math.random() * 1_000_000))
    .option("--no-foreign-keys", "without them not a single deadlock is allowed")
    .parse()
    .opts<Options>();
  const interrupted = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.on(signal, () => {
      if (interrupted.signal.aborted) process.exit(130);
      interrupted.abort();
    });
  const say = (line: string) => void process.stdout.write(`${line}\n`);
  say(`seed ${seed}, ${connections} connections, ${minutes} min`);
  const { checks, tally } = await stress({
    seconds: minutes * 60,
    connections,
    seed,
    foreignKeys,
    variety: minutes >= 1,
    signal: interrupted.signal,
    progress: say,
  });
  if (interrupted.signal.aborted) return 130;
  say(`\n${textTable(["what", "count"], tally.entries())}`);
  for (const { name, wrong } of checks) {
    say(`${wrong.length === 0 ? "ok    " : "FAILED"}  ${name}${wrong.length === 0 ? "" : `: ${wrong.length}`}`);
    for (const line of wrong.slice(0, MOST_WRONG)) say(`          ${line}`);
  }
  const failed = checks.filter((c) => c.wrong.length > 0).length;
  if (failed > 0) say(`\nseed ${seed}`);
  say(`${checks.length - failed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}

process.exitCode = await main();
