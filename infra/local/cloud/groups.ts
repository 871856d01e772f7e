import { processStart } from "../process-table.ts";

/** A process on file: the pid, and when it started, which together name one process for ever. */
export interface ProcessOnFile {
  readonly pid: number;
  readonly start?: string;
}

/** Signals a process group; its leader may be gone, and so may all of it. */
export function killGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    // macOS says EPERM of a group of zombies.
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "ESRCH" && code !== "EPERM") throw error;
  }
}

/**
 * Kills the group of a process on file, unless another process has the pid by now.
 * `recent`: it was there a moment ago, so a group without its leader is still its own.
 */
export function killOnFile({ pid, start }: ProcessOnFile, recent: boolean): void {
  const now = processStart(pid);
  if (now !== undefined ? now === start : recent) killGroup(pid, "SIGKILL");
}
