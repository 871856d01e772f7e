/* What descriptions of routes are made of. */

import { LIMITS } from "../requests.ts";

export function operation(summary: string, responses: object) {
  return { summary, responses: { ...responses, 423: locked(), 503: unavailable() } };
}

export function object<const P extends object>(properties: P) {
  return { type: "object", required: Object.keys(properties), properties };
}

export function ok(description: string, schema: object) {
  return { description, content: { "application/json": { schema } } };
}

function problem(description: string, headers: object = {}) {
  return { description, headers, content: { "application/problem+json": { schema: ref("Problem") } } };
}

export function bad() {
  return problem("Something in the request is wrong; `fields` says what");
}
export function missing() {
  return problem("There is no such thing");
}
export function conflict(description: string) {
  return problem(description);
}
export function impossible(description: string) {
  return problem(description);
}
function locked() {
  return problem("The row is held; come back after Retry-After", retryAfter());
}
function unavailable() {
  return problem("The database, or the cloud, cannot answer yet; come back after Retry-After", retryAfter());
}
function retryAfter() {
  return { "Retry-After": { schema: { type: "integer" }, description: "seconds" } };
}

/** What a list takes beside its own parameters. */
export function page() {
  return [
    query("limit", { type: "integer", minimum: 1, maximum: LIMITS.mostRows, default: LIMITS.defaultRows }),
    query("cursor", { type: "string", description: "`nextCursor` of the page before" }),
  ];
}
export function list(name: string) {
  return object({ items: { type: "array", items: ref(name) }, nextCursor: nullable("string") });
}
export function ref(name: string) {
  return { $ref: `#/components/schemas/${name}` };
}
export function body(schema: object) {
  return { required: true, content: { "application/json": { schema } } };
}
export function query(name: string, schema: object) {
  return { name, in: "query", schema };
}
export function path(name: string, schema: object) {
  return { name, in: "path", required: true, schema };
}
/** The id in a path. */
export function pathId() {
  return path("id", id());
}
export function id() {
  return { type: "string", format: "uuid" };
}
export function text() {
  return { type: "string", minLength: 1 };
}
/** A name or another short text that somebody gives. */
export function label() {
  return { ...text(), maxLength: LIMITS.mostText };
}
export function whole(minimum: number, maximum: number) {
  return { type: "integer", minimum, maximum };
}
export function count() {
  return { type: "integer", minimum: 0 };
}
export function nullable(type: string, more: object = {}) {
  return { type: [type, "null"], ...more };
}
export function time(description: string) {
  return nullable("string", { format: "date-time", description });
}

/** The fields that all rows of pipelines share. */
export function engine() {
  return {
    attempts: { type: "integer", minimum: 0, description: "Attempts at the pass that is due; 0 after a success" },
    lastError: nullable("string"),
    nextTryAt: time("null when none is planned"),
    lockOwner: nullable("string"),
    lockExpiresAt: time("null when nobody holds the row"),
    createdAt: { type: "string", format: "date-time" },
    lastProcessedAt: { type: "string", format: "date-time" },
  };
}
