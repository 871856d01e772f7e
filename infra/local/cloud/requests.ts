import { LocalError } from "../errors.ts";
import type { Fault, FaultKind } from "./faults.ts";
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

/** The body of `POST /faults`. `match` default: every operation; `seconds` default 0; `count` default 1. Errors: as above. */
export function parseFault(body: unknown): Fault {
  const { match = null, kind, seconds = 0, count = 1 } = objectOf(body);
  if (match !== null && !isText(match)) throw bad("match", "must be an operation or a part of a volume's name");
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

function objectOf(body: unknown): Record<string, unknown> {
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw bad("body", "must be a JSON object");
  }
  return body as Record<string, unknown>;
}

const bad = (field: string, problem: string) => new LocalError("BAD_REQUEST", { field, problem });
