import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** Something that is the same for a process as long as it lives and differs for the next one with its number. */
export function processIdentity(pid: number): string | undefined {
  try {
    // Field 22 is the start time; the name in field 2 may hold blanks and ends at the last parenthesis.
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" ? undefined : fields[19];
  } catch {
    if (process.platform === "linux") return undefined;
    const { status, stdout } = spawnSync("ps", ["-o", "lstart=", "-p", String(pid)], { encoding: "utf8" });
    return status === 0 ? stdout.trim() : undefined;
  }
}

/** PostgreSQL processes whose working directory is `dataDir`, the postmaster and its children; never ourselves. */
export function serverProcesses(dataDir: string, postmaster: number | undefined): number[] {
  if (process.platform !== "linux") return postmaster && ranHere(postmaster, dataDir) ? [postmaster] : [];
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid > 0 && pid !== process.pid && worksIn(pid, dataDir));
}

function worksIn(pid: number, dataDir: string): boolean {
  try {
    return (
      readlinkSync(`/proc/${pid}/cwd`) === dataDir &&
      readFileSync(`/proc/${pid}/comm`, "utf8").startsWith("postgres") &&
      processIdentity(pid) !== undefined
    );
  } catch {
    return false;
  }
}

function ranHere(pid: number, dataDir: string): boolean {
  const { stdout } = spawnSync("ps", ["-o", "command=", "-p", String(pid)], { encoding: "utf8" });
  return stdout.includes("postgres") && stdout.includes(dataDir);
}

/** Sends a signal; a process that is gone already is fine. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** Ends the postmaster and its children with SIGKILL, as a machine that is lost. Those that are left end by themselves. */
export function killServer(dataDir: string, postmaster: number): void {
  signal(postmaster, "SIGKILL");
  for (const pid of serverProcesses(dataDir, undefined)) signal(pid, "SIGKILL");
}
