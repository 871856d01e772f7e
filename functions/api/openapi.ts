import { LIMITS, VOLUME_STATUSES } from "./requests.ts";

/** The API as an OpenAPI 3.1 document; `GET /openapi.json` serves it. A test keeps it in step with the routes. */
export const OPENAPI = {
  openapi: "3.1.0",
  info: {
    title: "Millrace reference application",
    version: "1",
    description: "Volumes that pipelines create and delete at a cloud. On AWS every call is signed (SigV4).",
  },
  paths: {
    "/": { get: operation("Lists the routes", { 200: ok("The routes", { type: "object" }) }) },
    "/openapi.json": { get: operation("This document", { 200: ok("The document", { type: "object" }) }) },
    "/volumes": {
      post: {
        ...operation("Submits a volume; a pipeline then creates it", {
          201: ok("The volume", ref("Volume")),
          400: bad(),
        }),
        requestBody: body(ref("NewVolume")),
      },
      get: {
        ...operation("Lists volumes, newest first", { 200: ok("A page", list("Volume")), 400: bad() }),
        parameters: [
          query("limit", { type: "integer", minimum: 1, maximum: LIMITS.mostRows, default: LIMITS.defaultRows }),
          query("cursor", { type: "string" }),
          query("status", { enum: VOLUME_STATUSES }),
        ],
      },
    },
    "/volumes/{id}": {
      parameters: [path("id", { type: "string", format: "uuid" })],
      get: operation("One volume", { 200: ok("The volume", ref("Volume")), 400: bad(), 404: missing() }),
      delete: operation("Asks for the volume to be deleted; works while it is held, too", {
        202: ok("The volume, on its way out; it is gone when GET answers 404", ref("Volume")),
        400: bad(),
        404: missing(),
      }),
    },
    "/pipelines": {
      get: operation("Every pipeline with its figures", { 200: ok("All of them", list("Pipeline")) }),
    },
    "/pipelines/{name}/pause": {
      parameters: [path("name", { type: "string" })],
      post: {
        ...operation("Fetches no more rows; what is in flight is finished", {
          200: ok("The pipeline", ref("Pipeline")),
          400: bad(),
          404: missing(),
        }),
        requestBody: body({ type: "object", required: ["by"], properties: { by: text() } }),
      },
    },
    "/pipelines/{name}/resume": {
      parameters: [path("name", { type: "string" })],
      post: operation("Lets it go on, at once", { 200: ok("The pipeline", ref("Pipeline")), 404: missing() }),
    },
    "/hints": {
      post: {
        ...operation("Tells fetchers to look now", {
          202: ok("The hint", { type: "object" }),
          400: bad(),
          404: missing(),
        }),
        requestBody: body({
          oneOf: [
            { type: "object", required: ["pipeline"], properties: { pipeline: text() } },
            { type: "object", required: ["table"], properties: { table: text() } },
          ],
        }),
      },
    },
  },
  components: {
    schemas: {
      NewVolume: object({ name: { ...text(), maxLength: LIMITS.mostText }, sizeGb: size() }),
      Volume: object({
        id: { type: "string", format: "uuid" },
        name: text(),
        sizeGb: size(),
        status: { enum: VOLUME_STATUSES },
        attempts: { type: "integer", minimum: 0, description: "Attempts at the pass that is due; 0 after a success" },
        lastError: { type: ["string", "null"] },
        nextTryAt: time("null when none is planned"),
        lockOwner: { type: ["string", "null"] },
        lockExpiresAt: time("null when nobody holds the row"),
        createdAt: { type: "string", format: "date-time" },
        lastProcessedAt: { type: "string", format: "date-time" },
      }),
      Pipeline: object({
        name: text(),
        table: text(),
        pausedAt: time("null while it runs"),
        pausedBy: { type: ["string", "null"] },
        fetchedAt: time("when a fetcher last looked"),
        inFlight: object({ locked: count(), queued: count(), processing: count() }),
        due: count(),
        failed: count(),
        dead: count(),
      }),
      Problem: {
        ...object({ type: text(), title: text(), status: { type: "integer" }, detail: text(), code: text() }),
        description: "RFC 9457; `fields`, where present, names each field that is wrong",
      },
    },
  },
} as const;

function operation(summary: string, responses: object) {
  return { summary, responses: { ...responses, 423: locked(), 503: resuming() } };
}

function object(properties: object) {
  return { type: "object", required: Object.keys(properties), properties };
}

function ok(description: string, schema: object) {
  return { description, content: { "application/json": { schema } } };
}

function problem(description: string, headers: object = {}) {
  return { description, headers, content: { "application/problem+json": { schema: ref("Problem") } } };
}

function bad() {
  return problem("Something in the request is wrong; `fields` says what");
}
function missing() {
  return problem("There is no such thing");
}
function locked() {
  return problem("The row is held; come back after Retry-After", retryAfter());
}
function resuming() {
  return problem("The database cannot answer yet; come back after Retry-After", retryAfter());
}
function retryAfter() {
  return { "Retry-After": { schema: { type: "integer" }, description: "seconds" } };
}

function list(name: string) {
  return object({ items: { type: "array", items: ref(name) }, nextCursor: { type: ["string", "null"] } });
}
function ref(name: string) {
  return { $ref: `#/components/schemas/${name}` };
}
function body(schema: object) {
  return { required: true, content: { "application/json": { schema } } };
}
function query(name: string, schema: object) {
  return { name, in: "query", schema };
}
function path(name: string, schema: object) {
  return { name, in: "path", required: true, schema };
}
function text() {
  return { type: "string", minLength: 1 };
}
function size() {
  return { type: "integer", minimum: 1, maximum: LIMITS.mostGb };
}
function count() {
  return { type: "integer", minimum: 0 };
}
function time(description: string) {
  return { type: ["string", "null"], format: "date-time", description };
}
