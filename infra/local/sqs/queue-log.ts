/* One JSON line for everything that happens to a message: how often it was received can be read from outside. */

import { closeSync, openSync, writeSync } from "node:fs";

/** A line of `sqs.jsonl`. `count` is the message's receive count, `handle` that of one receive. */
export interface QueueEvent {
  readonly queue: string;
  readonly op: "send" | "receive" | "delete" | "visibility" | "drop" | "refuse";
  readonly messageId?: string;
  readonly count?: number;
  readonly seconds?: number;
  readonly fault?: string;
  readonly body?: string;
}

export interface QueueLog {
  write(event: QueueEvent): void;
  close(): Promise<void>;
}

/** Opens the log; lines are added to what is there. */
export function openQueueLog(file: string): QueueLog {
  const fd = openSync(file, "a");
  return {
    // at once: whoever has an answer of the queue finds its line in the file
    write: (event) => void writeSync(fd, `${JSON.stringify({ at: new Date().toISOString(), ...event })}\n`),
    close: async () => closeSync(fd),
  };
}
