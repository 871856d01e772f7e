/* `npm run chaos`: a local stack under load while everything that can fail does, and what holds in the end. */

import { rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command, InvalidArgumentError } from "commander";
import { synthesize } from "../../infra/local/assembly.ts";
import { type ChaosOptions, chaos } from "./chaos.ts";
import { tellReport } from "./report.ts";
import { synthesizeTuned } from "./tuned.ts";

interface Options {
  readonly minutes: number;
  readonly seed: number;
  readonly tuned: boolean;
}

/** After the last fault: an unanswered call takes a minute, a schedule period another, a back-off the rest. */
const BOUND_SECONDS = 240;
/** Longer than a lock lives. */
const LONGEST_SECONDS = 45;

function number(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (Number.isFinite(value) && value >= least) return value;
    throw new InvalidArgumentError(`a number from ${least} on.`);
  };
}

function parse(): Options {
  return new Command("npm run chaos --")
    .description(
      "Starts a local stack of its own under load, kills and disturbs everything at random, and checks what is left. Ctrl-C ends the faults early; a second one does not wait.",
    )
    .option("--minutes <n>", "how long things go wrong", number(0.1), 5)
    .option("--seed <n>", "what is chosen (default: any)", number(0), Math.floor(Math.random() * 1_000_000))
    .option("--tuned", "with the settings for a faster recovery", false)
    .parse()
    .opts<Options>();
}

async function main({ minutes, seed, tuned }: Options): Promise<number> {
  const say = (line: string) => void process.stdout.write(`${line}\n`);
  const interrupted = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.on(signal, () => {
      if (interrupted.signal.aborted) process.exit(130);
      interrupted.abort();
    });
  say(`seed ${seed}, ${minutes} min`);
  const assembly = await mkdtemp(join(tmpdir(), "millrace-chaos-assembly-"));
  try {
    if (tuned) await synthesizeTuned(assembly);
    else await synthesize({ outdir: assembly });
    const options: ChaosOptions = {
      seconds: minutes * 60,
      seed,
      boundSeconds: BOUND_SECONDS,
      longestSeconds: LONGEST_SECONDS,
      hangs: true,
      assembly,
      signal: interrupted.signal,
      progress: say,
    };
    return tellReport(await chaos(options), seed, say);
  } catch (error) {
    if (!interrupted.signal.aborted) throw error;
    say(String(error));
    return 130;
  } finally {
    rmSync(assembly, { recursive: true, force: true });
  }
}

process.exitCode = await main(parse());
