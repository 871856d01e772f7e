import { closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs";
import type { CommandState, Ended } from "./agent-protocol.ts";
import { killOnFile, type ProcessOnFile } from "./groups.ts";
import { openStore, readJson, type Thing, writeJson } from "./store.ts";

/** What `command.json` in a command's folder says. */
export interface Command extends Thing {
  readonly instanceId: string;
  readonly command: readonly string[];
  readonly volumes: readonly { readonly id: string; readonly name: string }[];
}

export type CommandRequest = Omit<Command, "id" | "createdAt">;

export interface CommandStore {
  create(request: CommandRequest): { readonly thing: Command; readonly made: boolean };
  get(id: string): Command | undefined;
  byKey(key: string): Command | undefined;
  state(id: string): CommandState;
  output(id: string, from: number): { readonly text: string; readonly next: number };
  /** Kills what the instance's commands left running, and says of those that had not ended that they are lost. */
  lose(instanceId: string, reason: string, options: { readonly recent: boolean }): void;
  removeOf(instanceId: string): void;
  /** The folder of all commands. */
  readonly folder: string;
}

/** Most bytes that one read of an output answers. */
const READ_BYTES = 64 * 1024;

/** Commands as folders `<dir>/commands/<id>`: `command.json`, `process.json`, `ended.json`, `output`. */
export function openCommands(dir: string): CommandStore {
  const store = openStore<Command>({ dir, folder: "commands", file: "command.json", prefix: "cmd", inside: [] });
  const ended = (id: string) => readJson<Ended>(store.path(id, "ended.json"));
  const of = (instanceId: string) => store.list().filter((command) => command.instanceId === instanceId);

  function state(id: string): CommandState {
    if (store.get(id) === undefined) return { state: "lost", reason: `${id} is not known; its instance is gone` };
    const end = ended(id);
    if (end === undefined) return { state: "running" };
    return "lost" in end ? { state: "lost", reason: end.lost } : { state: "exited", exitCode: end.exitCode };
  }

  return {
    create: store.create,
    get: store.get,
    byKey: store.byKey,
    folder: store.path("."),
    state,
    output(id, from) {
      // The state first: what is read after the end is all there is.
      const running = state(id).state === "running";
      const file = store.path(id, "output");
      if (store.get(id) === undefined || !existsSync(file)) return { text: "", next: from };
      const { bytes, more } = readBytes(file, from);
      const whole = running || more ? bytes.subarray(0, wholeCharacters(bytes)) : bytes;
      return { text: whole.toString("utf8"), next: from + whole.length };
    },
    lose(instanceId, reason, { recent }) {
      for (const { id } of of(instanceId)) {
        if (ended(id) !== undefined) continue;
        const process = readJson<ProcessOnFile>(store.path(id, "process.json"));
        if (process !== undefined) killOnFile(process, recent);
        writeJson(store.path(id, "ended.json"), { lost: reason } satisfies Ended);
      }
    },
    removeOf(instanceId) {
      for (const { id } of of(instanceId)) store.remove(id);
    },
  };
}

function readBytes(file: string, from: number): { readonly bytes: Buffer; readonly more: boolean } {
  const fd = openSync(file, "r");
  try {
    const buffer = Buffer.alloc(READ_BYTES);
    const length = readSync(fd, buffer, 0, READ_BYTES, from);
    return { bytes: buffer.subarray(0, length), more: fstatSync(fd).size > from + length };
  } finally {
    closeSync(fd);
  }
}

/** How many of the bytes are left without a character at their end whose rest is still to come. */
function wholeCharacters(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte < 0x80) break;
    if (byte < 0xc0) continue; // not the first byte of its character
    const size = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return back < size ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}
