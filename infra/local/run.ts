/* `npm start`: the whole stack on this machine, until Ctrl-C. */

import { join } from "node:path";
import { Command, InvalidArgumentError, Option } from "commander";
import { LocalError } from "./errors.ts";
import { ProcessTable } from "./process-table.ts";
import { createProgress, type Progress } from "./progress.ts";
import { prove } from "./prove.ts";
import { type Stack, startStack } from "./stack.ts";
import { type Local, owned, stateFolder } from "./state.ts";

interface Options {
  readonly once: boolean;
  readonly stateDir?: string;
  readonly port: number;
  readonly databasePort: number;
  readonly apiPort?: number;
  readonly assembly?: string;
  readonly reset: boolean;
  readonly verbose: boolean;
  readonly proof: boolean;
}

const DEFAULT_PORT = 4566;
const DEFAULT_DATABASE_PORT = 54_320;

function port(text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 0 && value <= 65_535) return value;
  throw new InvalidArgumentError("a port is a whole number from 0 (any free one) to 65535.");
}

function parse(): Options {
  return new Command("npm start --")
    .description("Synthesizes the CDK app and runs what comes out on this machine.")
    .option("--once", "make one volume, then stop everything; exit code 0 if it became active", false)
    .option("--state-dir <folder>", "database, logs and addresses (default: MILLRACE_STATE_DIR, else .millrace)")
    .option("--port <port>", "port of all AWS services, 0 for any free one", port, DEFAULT_PORT)
    .option("--database-port <port>", "port of PostgreSQL, 0 for any free one", port, DEFAULT_DATABASE_PORT)
    .option("--api-port <port>", "port of the HTTP API (default: the one after --port; any with --port 0)", port)
    .option("--assembly <folder>", "run this cloud assembly (cdk synth -o) instead of synthesizing")
    .option("--reset", "begin with a fresh database", false)
    .option("--verbose", "name the resources that have no meaning on one machine", false)
    .addOption(new Option("--no-proof", "do not make a volume and a fleet at the start").conflicts("once"))
    .parse()
    .opts<Options>();
}

async function main(options: Options): Promise<number> {
  const stateDir = stateFolder(options.stateDir);
  const progress = createProgress((line) => process.stdout.write(`${line}\n`));
  const interrupted = stopOnSignals(stateDir);
  const apiPort = options.apiPort ?? (options.port === 0 ? 0 : options.port + 1);
  let stack: Stack | undefined;
  try {
    stack = await startStack({ ...options, stateDir, apiPort, progress, signal: interrupted });
    const logs = join(stateDir, "logs");
    if (options.proof) await prove(stack, stateDir, progress);
    tellAddresses(stack.local, logs, progress);
    if (!options.once) await aborted(interrupted);
    return 0;
  } catch (error) {
    if (interrupted.aborted) return 130;
    process.stderr.write(
      `${error instanceof LocalError ? `${error.code}: ${error.message}` : (error as Error).stack}\n`,
    );
    return 1;
  } finally {
    if (stack) await progress.step("stopping", () => stack!.stop());
  }
}

/** The first signal asks for an orderly end, the second ends everything at once. */
function stopOnSignals(stateDir: string): AbortSignal {
  const interrupted = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      if (interrupted.signal.aborted) {
        // Not while another stack has the folder: its processes are none of ours.
        if (owned(stateDir)) new ProcessTable(join(stateDir, "processes.jsonl")).end();
        process.exit(130);
      }
      interrupted.abort();
    });
  }
  return interrupted.signal;
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}

function tellAddresses(local: Local, logs: string, progress: Progress): void {
  progress.note("ready");
  const lines = [
    ["API", local.apiUrl],
    ["AWS services", local.awsEndpoint],
    ["PostgreSQL", `${withoutPassword(local.databaseUrl)}  (password: databaseUrl in local.json)`],
    ["control", local.controlUrl],
    ["cloud", local.cloudUrl],
    ["logs", logs],
  ] as const;
  for (const [what, where] of lines) process.stdout.write(`         ${what.padEnd(13)} ${where}\n`);
}

/** A terminal is a log too. */
function withoutPassword(text: string): string {
  const url = new URL(text);
  url.password = "";
  return url.href;
}

process.exitCode = await main(parse());
