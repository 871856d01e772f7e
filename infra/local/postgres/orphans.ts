import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { LocalError } from "../errors.ts";
import { processIdentity, serverProcesses, signal } from "./processes.ts";

const KEEPER_FILE = "millrace.keeper";

/** Notes in the data directory that this process keeps the server, so that a later start can tell whether it lives. */
export async function noteKeeper(dataDir: string): Promise<void> {
  const identity = processIdentity(process.pid);
  await writeFile(join(dataDir, KEEPER_FILE), JSON.stringify({ pid: process.pid, identity }));
}

export async function forgetKeeper(dataDir: string): Promise<void> {
  await rm(join(dataDir, KEEPER_FILE), { force: true });
}

/**
 * Ends a server that its keeper left behind (killed with SIGKILL, say) in this very data directory, and waits until
 * all of its processes are gone. DATA_DIRECTORY_IN_USE when the keeper is alive: its server is not ours to kill.
 */
export async function endOrphans(dataDir: string): Promise<void> {
  const postmaster = await postmasterPid(dataDir);
  const left = () => serverProcesses(dataDir, postmaster);
  if (left().length > 0) {
    const keeper = await livingKeeper(dataDir);
    if (keeper !== undefined) throw new LocalError("DATA_DIRECTORY_IN_USE", { dataDir, pid: keeper });
    // Fast shutdown by the postmaster, immediate shutdown by the postmaster, then everybody.
    if (!(await ended(left, postmaster, "SIGINT")) && !(await ended(left, postmaster, "SIGQUIT"))) {
      for (const pid of left()) signal(pid, "SIGKILL");
      if (!(await gone(left))) throw new LocalError("DATA_DIRECTORY_IN_USE", { dataDir, pid: left().join(", ") });
    }
  }
  // Left by a killed postmaster. Its number may belong to another process by now, which would stop PostgreSQL.
  await rm(join(dataDir, "postmaster.pid"), { force: true });
}

async function ended(left: () => number[], postmaster: number | undefined, name: NodeJS.Signals): Promise<boolean> {
  if (postmaster !== undefined && left().includes(postmaster)) signal(postmaster, name);
  return gone(left);
}

async function gone(left: () => number[]): Promise<boolean> {
  for (let waited = 0; waited < 10_000; waited += 20) {
    if (left().length === 0) return true;
    await delay(20);
  }
  return false;
}

async function postmasterPid(dataDir: string): Promise<number | undefined> {
  const text = await readFile(join(dataDir, "postmaster.pid"), "utf8").catch(() => "");
  const pid = Number.parseInt(text, 10);
  return pid > 0 ? pid : undefined;
}

async function livingKeeper(dataDir: string): Promise<number | undefined> {
  const text = await readFile(join(dataDir, KEEPER_FILE), "utf8").catch(() => "");
  if (text === "") return undefined;
  const { pid, identity } = JSON.parse(text) as { pid: number; identity?: string };
  return identity !== undefined && processIdentity(pid) === identity ? pid : undefined;
}
