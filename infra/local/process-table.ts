/* Every process that a stack starts, on file, so that the next start can end what a killed stack left behind. */

import { execFileSync } from "node:child_process";
import { appendFileSync, existsSync, readFileSync, rmSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";

/** When a process started, in the system's own words; undefined when there is no such process. With the pid it names one process for ever. */
export function processStart(pid: number): string | undefined {
  if (!Number.isInteger(pid) || pid <= 1) return undefined;
  if (process.platform === "linux") {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      return fields[0] === "Z" ? undefined : fields[19]; // a zombie has ended; field 22 counts ticks since boot
    } catch {
      return undefined;
    }
  }
  try {
    return (
      execFileSync("ps", ["-o", "lstart=", "-p", String(pid)], { stdio: "pipe" })
        .toString()
        .trim() || undefined
    );
  } catch {
    return undefined;
  }
}

export interface ProcessEntry {
  readonly pid: number;
  readonly start: string;
  /** What it is, for messages: "sandbox fetcher". */
  readonly what: string;
}

/** The processes of one stack, one JSON line each in `file`. */
export class ProcessTable {
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  /** Notes a process that has just been started. */
  add(pid: number, what: string): void {
    const start = processStart(pid);
    if (start === undefined) return;
    appendFileSync(this.#file, `${JSON.stringify({ pid, start, what } satisfies ProcessEntry)}\n`);
  }

  /** Those of the noted processes that still run: the same pid with the same start. */
  alive(): readonly ProcessEntry[] {
    if (!existsSync(this.#file)) return [];
    const entries = readFileSync(this.#file, "utf8").split("\n").filter(Boolean).map(parse);
    return entries.filter((entry) => entry !== undefined && processStart(entry.pid) === entry.start) as ProcessEntry[];
  }

  /** Ends every noted process that still runs, with its group, without waiting. Answers what it ended. */
  end(): readonly ProcessEntry[] {
    const left = this.alive();
    // PostgreSQL has children of its own, which only it can end; it recovers at its next start.
    for (const { pid, what } of left) signalGroup(pid, what === "postgres" ? "SIGQUIT" : "SIGKILL");
    return left;
  }

  /** The same, waits until they are gone, and empties the table. */
  async killLeftovers(): Promise<readonly ProcessEntry[]> {
    const left = this.end();
    for (let tries = 0; tries < 100 && this.alive().length > 0; tries += 1) {
      await wait(50);
      if (tries === 60) for (const { pid } of this.alive()) signalGroup(pid, "SIGKILL");
    }
    rmSync(this.#file, { force: true });
    return left;
  }
}

function parse(line: string): ProcessEntry | undefined {
  try {
    return JSON.parse(line) as ProcessEntry;
  } catch {
    return undefined; // the runner was killed while it wrote this line
  }
}

/** Signals a process and, where it leads one, its whole group. A process that is gone already is fine. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  for (const target of [-pid, pid]) {
    try {
      process.kill(target, signal);
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }
}
