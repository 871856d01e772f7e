import { LocalError } from "../errors.ts";
import type { CommandRequest } from "./commands.ts";
import type { Fault, FaultKind } from "./faults.ts";
import type { InstanceRequest } from "./instances.ts";
import type { AttachmentRequest } from "./steps.ts";
import type { VolumeRequest } from "./volumes.ts";

/** The body of `POST /volumes`. Errors: LocalError BAD_REQUEST with the field. */
export function parseVolumeRequest(body: unknown): VolumeRequest {
  const { key, tag = null, name, sizeGb } = objectOf(body);
  if (tag !== null && !isText(tag)) throw bad("tag", "must be a text that is not empty, or null");
  if (!isText(key)) throw bad("key", "must be a text that is not empty");
  if (!isText(name)) throw bad("name", "must be a text that is not empty");
  if (typeof sizeGb !== "number" || !Number.isInteger(sizeGb) || sizeGb < 1) {
    throw bad("sizeGb", "must be a whole number from 1");
  }
  return { key, tag, name, sizeGb };
}

/** The body of `POST /instances`. Errors: as above. */
export function parseInstanceRequest(body: unknown): InstanceRequest {
  const { key, tag, name } = objectOf(body);
  return { key: textOf("key", key), tag: textOf("tag", tag), name: textOf("name", name) };
}

/** The body of `POST /attachments`, and the query of its `DELETE`. Errors: as above. */
export function parseAttachment(body: unknown): AttachmentRequest {
  const { volumeId, instanceId } = objectOf(body);
  return { volumeId: textOf("volumeId", volumeId), instanceId: textOf("instanceId", instanceId) };
}

/** The body of `POST /commands`. Errors: as above. */
export function parseCommandRequest(body: unknown): CommandRequest {
  const { key, instanceId, command, volumes } = objectOf(body);
  if (!Array.isArray(command) || command.length === 0 || !command.every((part) => typeof part === "string")) {
    throw bad("command", "must be a program and its arguments, as texts");
  }
  if (!Array.isArray(volumes)) throw bad("volumes", "must be a list");
  const seen = volumes.map((each: unknown) => {
    const { id, name } = objectOf(each);
    return { id: textOf("volumes", id), name: folderName(name) };
  });
  if (new Set(seen.map(({ name }) => name)).size < seen.length) throw bad("volumes", "must have a name each");
  return { key: textOf("key", key), instanceId: textOf("instanceId", instanceId), command, volumes: seen };
}

/** The body of `POST /commands/{id}/stop`: seconds until it is killed. Errors: as above. */
export function parseStop(body: unknown): number {
  const { graceSeconds } = objectOf(body);
  if (typeof graceSeconds !== "number" || !(graceSeconds >= 0 && graceSeconds <= 86_400)) {
    throw bad("graceSeconds", "must be a number from 0 to 86400");
  }
  return graceSeconds;
}

/** The query of `GET /commands/{id}/output`: a byte offset. Errors: as above. */
export function parseOffset(text: string | null): number {
  const from = Number(text ?? 0);
  if (!Number.isSafeInteger(from) || from < 0) throw bad("from", "must be a whole number from 0");
  return from;
}

/** The body of `POST /faults`. `match` default: every operation; `seconds` default 0; `count` default 1. Errors: as above. */
export function parseFault(body: unknown): Fault {
  const { match = null, kind, seconds = 0, count = 1 } = objectOf(body);
  if (match !== null && !isText(match)) throw bad("match", "must be an operation or a part of a name");
  if (!isKind(kind)) throw bad("kind", `must be one of ${KINDS.join(", ")}`);
  if (typeof seconds !== "number" || !(seconds >= 0 && seconds <= 86_400)) {
    throw bad("seconds", "must be a number from 0 to 86400");
  }
  if (typeof count !== "number" || !Number.isInteger(count) || count < 1) {
    throw bad("count", "must be a whole number from 1");
  }
  return { match, kind, seconds, count };
}

const KINDS = ["delay", "fail", "killCaller"] as const satisfies readonly FaultKind[];
const isKind = (value: unknown): value is FaultKind => KINDS.some((kind) => kind === value);
const isText = (value: unknown): value is string => typeof value === "string" && value !== "";

function textOf(field: string, value: unknown): string {
  if (!isText(value)) throw bad(field, "must be a text that is not empty");
  return value;
}

/** A name becomes a link in the working directory, and must not lead out of it. */
function folderName(name: unknown): string {
  if (!isText(name) || name === "." || name === ".." || /[/\0]/.test(name)) {
    throw bad("volumes", "each must have the name of a folder");
  }
  return name;
}

function objectOf(body: unknown): Record<string, unknown> {
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw bad("body", "must be a JSON object");
  }
  return body as Record<string, unknown>;
}

const bad = (field: string, problem: string) => new LocalError("BAD_REQUEST", { field, problem });
