/* The log of one function: what its processes print, as they print it, and the platform's own lines. */

import { closeSync, openSync, writeSync } from "node:fs";

export interface FunctionLog {
  readonly file: string;
  /** For the processes to write to; each line is added in one piece. */
  readonly fd: number;
  /** Adds a platform line in the form that Lambda's JSON logging has. */
  platform(type: string, record: Readonly<Record<string, unknown>>): void;
  close(): void;
}

/** Opens a function's log; lines are added to what is there. */
export function openFunctionLog(file: string): FunctionLog {
  const fd = openSync(file, "a");
  let open = true;
  return {
    file,
    fd,
    platform(type, record) {
      if (open) writeSync(fd, `${JSON.stringify({ time: new Date().toISOString(), type, record })}\n`);
    },
    close() {
      if (open) closeSync(fd);
      open = false;
    },
  };
}
