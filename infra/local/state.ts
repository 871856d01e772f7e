/* The state folder of a stack: who runs in it, and how to reach what runs. */

import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { LocalError } from "./errors.ts";
import { ProcessTable, processStart } from "./process-table.ts";

/** Contents of `local.json`: everything that a client of a running stack needs. */
export interface Local {
  readonly version: 1;
  readonly pid: number;
  readonly awsEndpoint: string;
  readonly apiUrl: string;
  readonly controlUrl: string;
  readonly cloudUrl: string;
  readonly databaseUrl: string;
  readonly region: string;
  readonly accountId: string;
  readonly clusterArn: string;
  readonly secretArn: string;
  readonly database: string;
  readonly queues: Readonly<Record<string, { readonly url: string; readonly arn: string; readonly deadUrl?: string }>>;
  readonly functions: Readonly<Record<string, { readonly arn: string; readonly logFile: string }>>;
}

/** The repository's root folder. */
export const ROOT = resolve(import.meta.dirname, "../..");

/** The state folder asked for: the option, else MILLRACE_STATE_DIR, else `.millrace` in the repository. */
export function stateFolder(option?: string): string {
  return resolve(option ?? process.env["MILLRACE_STATE_DIR"] ?? join(ROOT, ".millrace"));
}

/** A state folder that this process owns until `release`. */
export class StateFolder {
  readonly dir: string;
  readonly processes: ProcessTable;

  private constructor(dir: string) {
    this.dir = dir;
    this.processes = new ProcessTable(join(dir, "processes.jsonl"));
  }

  /**
   * Takes the folder, made if need be, and ends what a killed stack left running in it.
   * Throws ALREADY_RUNNING when a stack that lives has it, STATE_FOLDER when it cannot be made.
   */
  static async take(dir: string): Promise<StateFolder> {
    makeFolder(join(dir, "logs"));
    const state = new StateFolder(dir);
    const me = JSON.stringify({ pid: process.pid, start: processStart(process.pid) });
    try {
      writeFileSync(state.#runnerFile, me, { flag: "wx" });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      const pid = runningIn(dir);
      if (pid !== undefined) throw new LocalError("ALREADY_RUNNING", { pid, dir });
      writeFileSync(state.#runnerFile, me);
    }
    rmSync(state.#localFile, { force: true });
    await state.processes.killLeftovers();
    return state;
  }

  get #runnerFile(): string {
    return join(this.dir, "runner.json");
  }

  get #localFile(): string {
    return join(this.dir, "local.json");
  }

  path(...parts: string[]): string {
    return join(this.dir, ...parts);
  }

  /** Forgets the database and everything that belongs to its rows. */
  reset(): void {
    for (const each of ["postgres", "cloud", "logs", "sqs.jsonl", "secrets.json"]) {
      rmSync(this.path(each), { recursive: true, force: true });
    }
    mkdirSync(this.path("logs"), { recursive: true });
  }

  /** Makes the stack findable. Written by rename, so that nobody ever reads half of it. */
  publish(local: Local): void {
    const draft = `${this.#localFile}.${process.pid}`;
    writeFileSync(draft, `${JSON.stringify(local, null, 2)}\n`, { mode: 0o600 });
    renameSync(draft, this.#localFile);
  }

  /** Takes `local.json` away: the stack is no longer to be used. */
  withdraw(): void {
    rmSync(this.#localFile, { force: true });
  }

  /** Gives the folder back; everything started has to be gone by then. */
  release(): void {
    this.withdraw();
    rmSync(this.#runnerFile, { force: true });
    rmSync(this.path("processes.jsonl"), { force: true });
  }
}

/** The process of the stack that runs in a folder, if one lives. */
function runningIn(dir: string): number | undefined {
  const file = join(dir, "runner.json");
  if (!existsSync(file)) return undefined;
  try {
    const { pid, start } = JSON.parse(readFileSync(file, "utf8")) as { pid: number; start: string };
    return pid !== process.pid && processStart(pid) === start ? pid : undefined;
  } catch {
    return undefined;
  }
}

/** Whether the folder is this process's. */
export function owned(dir: string): boolean {
  try {
    return (JSON.parse(readFileSync(join(dir, "runner.json"), "utf8")) as { pid: number }).pid === process.pid;
  } catch {
    return false;
  }
}

/** Level by level: a recursive mkdir never returns below a folder that can hold none, such as /proc. */
function makeFolder(dir: string): void {
  const missing: string[] = [];
  for (let level = dir; !existsSync(level); level = dirname(level)) missing.unshift(level);
  try {
    for (const level of missing) mkdirSync(level);
  } catch (error) {
    throw new LocalError("STATE_FOLDER", { dir, problem: (error as Error).message });
  }
}
