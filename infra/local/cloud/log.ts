import { appendFileSync, existsSync, readFileSync } from "node:fs";
import type { Op } from "./faults.ts";

/** One operation as it ended. `killed`: it was done, and its caller was killed instead of being answered. */
export interface LogLine {
  /** When it ended, ISO 8601 in UTC. */
  readonly at: string;
  readonly op: Op;
  /** The idempotency key of the volume, instance or command; null when there was none, and for attachments. */
  readonly key: string | null;
  /** Of the volume or instance, both for attachments; for a command its instance's. */
  readonly name: string;
  readonly outcome:
    | "created"
    | "existing"
    | "deleted"
    | "attached"
    | "detached"
    | "stopping"
    | "missing"
    | "failed"
    | "killed";
}

export interface CloudLog {
  write(line: Omit<LogLine, "at">): void;
  /** Every line so far, those of earlier runs included, oldest first. */
  lines(): LogLine[];
}

/** A file of JSON lines. Written synchronously: a line is on disk before its caller is answered or killed. */
export function openLog(file: string): CloudLog {
  return {
    write(line) {
      appendFileSync(file, `${JSON.stringify({ at: new Date().toISOString(), ...line })}\n`);
    },
    lines() {
      if (!existsSync(file)) return [];
      const text = readFileSync(file, "utf8");
      return text
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line) as LogLine);
    },
  };
}
