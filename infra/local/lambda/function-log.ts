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

/** A function's log; made when there is something to write, lines are added to what is there. */
export function openFunctionLog(file: string): FunctionLog {
  let fd: number | undefined;
  let closed = false;
  const opened = () => {
    fd ??= openSync(file, "a");
    return fd;
  };
  return {
    file,
    get fd() {
      return opened();
    },
    platform(type, record) {
      if (!closed) writeSync(opened(), `${JSON.stringify({ time: new Date().toISOString(), type, record })}\n`);
    },
    close() {
      if (fd !== undefined && !closed) closeSync(fd);
      closed = true;
    },
  };
}
