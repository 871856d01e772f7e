#!/usr/bin/env node
import { setTimeout as wait } from "node:timers/promises";
import { run } from "./program.ts";

// A reader that has seen enough (`| head`) is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
});

// The first Ctrl-C ends a command that follows something, the second one the process; others end at once.
const interruption = new AbortController();

process.exitCode = await run(process.argv.slice(2), {
  env: process.env,
  cwd: process.cwd(),
  stdout: (text) => process.stdout.write(text),
  stderr: (text) => process.stderr.write(text),
  now: () => new Date(),
  pause: (milliseconds) => {
    if (process.listenerCount("SIGINT") === 0) process.once("SIGINT", () => interruption.abort());
    return wait(milliseconds, undefined, { signal: interruption.signal }).catch(() => undefined);
  },
  interrupted: interruption.signal,
});
