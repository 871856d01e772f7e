/*
 * The agent of one instance: a process that runs the instance's commands, each in a process group of its own.
 * It lives as long as the pipe to the service: when that closes, by whatever death of the service, the agent kills
 * every group and exits. What becomes of the commands is then for the service to say; only it knows the instance.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { appendFileSync, closeSync, mkdirSync, openSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { processStart } from "../process-table.ts";
import type { AgentSettings, FromAgent, ToAgent } from "./agent-protocol.ts";
import { killGroup } from "./groups.ts";
import { writeJson } from "./store.ts";

const NOT_STARTED = 127; // as a shell says that it cannot start a program

interface Running {
  readonly child: ChildProcess;
  stopped: boolean;
  killAt: number;
  timer?: NodeJS.Timeout;
}

const { instanceId, work, commands } = JSON.parse(process.argv[2] ?? "{}") as AgentSettings;
const running = new Map<string, Running>();
let ending = false;

function run(commandId: string, [program = "", ...args]: readonly string[]): void {
  if (ending) return;
  const file = (name: string) => join(commands, commandId, name);
  const cannot = (error: unknown) => {
    appendFileSync(file("output"), `${error instanceof Error ? error.message : error}\n`);
    writeJson(file("ended.json"), { exitCode: NOT_STARTED });
  };
  const output = openSync(file("output"), "a");
  try {
    mkdirSync(work, { recursive: true }); // a command may have removed it
    const env = { PATH: process.env["PATH"] ?? "", HOME: work, MILLRACE_INSTANCE: instanceId };
    const child = spawn(program, args, { cwd: work, env, detached: true, stdio: ["ignore", output, output] });
    child.once("error", cannot);
    if (child.pid === undefined) return;
    const { pid } = child;
    writeJson(file("process.json"), { pid, start: processStart(pid) });
    tell({ kind: "started", commandId, pid });
    running.set(commandId, { child, stopped: false, killAt: Number.POSITIVE_INFINITY });
    child.once("exit", (code, signal) => {
      clearTimeout(running.get(commandId)?.timer);
      running.delete(commandId);
      killGroup(pid, "SIGKILL"); // a command's end is the end of what it left in its group
      if (!ending) writeJson(file("ended.json"), { exitCode: code ?? 128 + signalNumber(signal) });
      if (ending && running.size === 0) process.exit();
    });
  } catch (error) {
    cannot(error);
  } finally {
    closeSync(output);
  }
}

function stop(commandId: string, graceSeconds: number): void {
  const command = running.get(commandId);
  const pid = command?.child.pid;
  if (command === undefined || pid === undefined) return;
  if (!command.stopped) killGroup(pid, "SIGTERM");
  command.stopped = true;
  const killAt = performance.now() + graceSeconds * 1000;
  if (killAt >= command.killAt) return; // asking again gives no more time
  command.killAt = killAt;
  clearTimeout(command.timer);
  command.timer = setTimeout(() => killGroup(pid, "SIGKILL"), graceSeconds * 1000);
}

function end(graceSeconds: number): void {
  ending = true;
  if (running.size === 0) process.exit();
  for (const commandId of running.keys()) stop(commandId, graceSeconds);
}

function die(): never {
  for (const { child } of running.values()) if (child.pid !== undefined) killGroup(child.pid, "SIGKILL");
  process.exit();
}

const tell = (message: FromAgent) => void (process.connected && process.send?.(message));
const signalNumber = (signal: NodeJS.Signals | null) => (signal === null ? 0 : constants.signals[signal]);

process.on("message", (message: ToAgent) => {
  if (message.kind === "run") run(message.commandId, message.command);
  else if (message.kind === "stop") stop(message.commandId, message.graceSeconds);
  else end(message.graceSeconds);
});
process.on("disconnect", die);
if (!process.connected) die();
tell({ kind: "ready" });
