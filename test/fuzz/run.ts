/* `npm run fuzz`: bad input to every queue and every route of a local stack, and what holds in the end. */

import { Command, InvalidArgumentError } from "commander";
import { fuzz } from "./fuzz.ts";
import { tellReport } from "./report.ts";

interface Options {
  readonly count: number;
  readonly seed: number;
}

/** A schedule period, a back-off, and a machine that has other things to do. */
const BOUND_SECONDS = 300;

function whole(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (Number.isSafeInteger(value) && value >= least) return value;
    throw new InvalidArgumentError(`a whole number from ${least} on.`);
  };
}

function parse(): Options {
  return new Command("npm run fuzz --")
    .description(
      "Starts a local stack of its own and sends random messages to each of its queues and random requests to each route of its API, nearly right ones and impossible ones, while a load of right ones goes on; then checks that nothing failed, was lost, or is stuck. Ctrl-C stops all of it.",
    )
    .option("--count <n>", "messages to each queue, and requests to each route", whole(1), 1_000)
    .option("--seed <n>", "what is sent (default: any)", whole(0), Math.floor(Math.random() * 1_000_000))
    .parse()
    .opts<Options>();
}

async function main({ count, seed }: Options): Promise<number> {
  const say = (line: string) => void process.stdout.write(`${line}\n`);
  const interrupted = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.on(signal, () => {
      if (interrupted.signal.aborted) process.exit(130);
      interrupted.abort();
    });
  say(`seed ${seed}, ${count} to each queue and route`);
  try {
    const report = await fuzz({ count, seed, boundSeconds: BOUND_SECONDS, signal: interrupted.signal, progress: say });
    return tellReport(report, seed, say);
  } catch (error) {
    if (!interrupted.signal.aborted) throw error;
    say("interrupted: nothing was checked");
    return 130;
  }
}

process.exitCode = await main(parse());
