import type { Cloud, CommandState, RunCommand } from "../cloud.ts";
import { CloudError } from "../errors.ts";
import { type Aws, tokenOf } from "./calls.ts";
import { runScript } from "./run-script.ts";
import { COMMANDS, outputScript, startScript, stateScript, stopScript } from "./scripts.ts";

/** Bytes of output a call: as base64 they stay below the 24,000 characters of Systems Manager. */
const CHUNK = 16_000;

type Commands = Pick<Cloud, "runCommand" | "commandState" | "stopCommand" | "readOutput">;

/** Commands on instances, by scripts through Systems Manager. The id is `<instance>/<key>`: nothing has to be looked up. */
export function ec2Commands(aws: Aws): Commands {
  return {
    async runCommand(request, { signal }) {
      const op = "runCommand";
      check(op, request);
      const id = `${request.instanceId}/${tokenOf(request.key)}`;
      const { instanceId, folder } = placeOf(op, id);
      const answer = await runScript(aws, op, instanceId, startScript(folder, request), signal);
      if (answer === undefined) throw refused(op, "INSTANCE_GONE", `${instanceId} is gone`);
      return { id };
    },

    async commandState(id, { signal }) {
      const op = "commandState";
      const { instanceId, folder } = placeOf(op, id);
      const answer = (await runScript(aws, op, instanceId, stateScript(folder), signal))?.trim();
      return stateOf(op, instanceId, answer);
    },

    async stopCommand(id, graceSeconds, { signal }) {
      const op = "stopCommand";
      const { instanceId, folder } = placeOf(op, id);
      await runScript(aws, op, instanceId, stopScript(folder, graceSeconds), signal);
    },

    /** Nothing comes back of a command that is lost. */
    async readOutput(id, from, { signal }) {
      const op = "readOutput";
      const { instanceId, folder } = placeOf(op, id);
      const answer = await runScript(aws, op, instanceId, outputScript(folder, from, CHUNK), signal);
      const [state = "missing", base64 = ""] = (answer ?? "missing").split("\n");
      const bytes = Buffer.from(base64, "base64");
      // More may follow when the command still runs, or when the chunk is full.
      const whole = state === "ended" && bytes.length < CHUNK ? bytes : bytes.subarray(0, endOfText(bytes));
      return { text: whole.toString("utf8"), next: from + whole.length };
    },
  };
}

function stateOf(op: string, instanceId: string, answer: string | undefined): CommandState {
  if (answer === undefined) return { state: "lost", reason: `${instanceId} is gone` };
  if (answer === "running") return { state: "running" };
  if (answer === "missing") return { state: "lost", reason: `${instanceId} does not know the command` };
  if (answer === "dead") return { state: "lost", reason: `${instanceId} was restarted, or the supervisor was killed` };
  const [, exitCode] = /^exited (\d+)$/.exec(answer) ?? [];
  if (exitCode !== undefined) return { state: "exited", exitCode: Number(exitCode) };
  throw new CloudError("CLOUD_ANSWER", { op, url: instanceId, reason: `"${answer.slice(0, 200)}"` });
}

/** Instance and folder that an id names. Errors: CLOUD_REFUSED for what is no id. */
function placeOf(op: string, id: string): { readonly instanceId: string; readonly folder: string } {
  const [, instanceId, token] = /^(i-[0-9a-f]+)\/([\w-]{1,64})$/.exec(id) ?? [];
  if (instanceId === undefined) throw refused(op, "BAD_ID", `"${id}" names no command`);
  return { instanceId, folder: `${COMMANDS}/${token}` };
}

function check(op: string, { command, volumes }: RunCommand): void {
  if (command.length === 0 || command[0] === "") throw refused(op, "BAD_COMMAND", "there is no program to run");
  if (command.some((part) => part.includes("\0"))) throw refused(op, "BAD_COMMAND", "an argument has a zero byte");
  for (const { id, name } of volumes) {
    if (!/^vol-[0-9a-f]+$/.test(id)) throw refused(op, "BAD_VOLUME", `"${id}" names no volume`);
    const bad = name === "" || name === "." || name === ".." || /[/\0]/.test(name);
    if (bad) throw refused(op, "BAD_VOLUME", `"${name}" cannot be the name of a folder`);
  }
}

const refused = (op: string, code: string, reason: string) =>
  new CloudError("CLOUD_REFUSED", { op, status: 400, code, reason });

/** Where the last whole character ends: a chunk can end inside one of up to four bytes, whose rest comes with the next. */
function endOfText(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(4, bytes.length); back++) {
    const byte = bytes[bytes.length - back]!;
    if (byte < 0x80) break;
    if (byte < 0xc0) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return length > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}
