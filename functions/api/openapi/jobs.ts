import { JOB_STATUSES, LIMITS } from "../requests.ts";
import {
  bad,
  body,
  count,
  engine,
  id,
  impossible,
  list,
  missing,
  nullable,
  object,
  ok,
  operation,
  page,
  pathId,
  query,
  ref,
  time,
} from "./parts.ts";

export const jobPaths = {
  "/jobs": {
    post: {
      ...operation("Submits a job; pipelines place it on an instance of the fleet and run it", {
        201: ok("The job", ref("Job")),
        400: bad(),
        422: impossible("The fleet or a volume is unknown or being deleted, or volumes cannot be folders side by side"),
      }),
      requestBody: body(ref("NewJob")),
    },
    get: {
      ...operation("Lists jobs, newest first", { 200: ok("A page", list("Job")), 400: bad() }),
      parameters: [...page(), query("fleetId", id()), query("status", { enum: JOB_STATUSES })],
    },
  },
  "/jobs/{id}": {
    parameters: [pathId()],
    get: operation("One job", { 200: ok("The job", ref("Job")), 400: bad(), 404: missing() }),
  },
  "/jobs/{id}/stop": {
    parameters: [pathId()],
    post: operation(
      "Asks for the job to be stopped; works while it is held, too, and does nothing to one that has ended",
      {
        202: ok("The job", ref("Job")),
        400: bad(),
        404: missing(),
      },
    ),
  },
  "/jobs/{id}/output": {
    parameters: [pathId()],
    get: {
      ...operation("What the job has written, standard output and error together, from a byte on", {
        200: ok("The next part; of a job that has ended, the last 64 KiB are kept", ref("Output")),
        400: bad(),
        404: missing(),
      }),
      parameters: [query("from", { ...count(), default: 0, description: "`next` of the part before" })],
    },
  },
};

export const jobSchemas = {
  NewJob: {
    ...object({
      fleetId: id(),
      command: {
        type: "array",
        minItems: 1,
        maxItems: LIMITS.mostArguments,
        items: { type: "string" },
        description: "Program and arguments; no shell is put in between",
      },
      volumeIds: { type: "array", maxItems: LIMITS.mostVolumes, uniqueItems: true, items: id(), default: [] },
    }),
    required: ["fleetId", "command"],
  },
  Job: object({
    id: id(),
    fleetId: nullable("string", { format: "uuid" }),
    fleetName: nullable("string"),
    command: { type: "array", items: { type: "string" } },
    volumeIds: { type: "array", items: id() },
    status: { enum: JOB_STATUSES },
    stopRequested: { type: "boolean" },
    instanceId: nullable("string", { format: "uuid" }),
    exitCode: nullable("integer"),
    statusMessage: nullable("string"),
    startedAt: time("null until its command runs"),
    finishedAt: time("null until it has ended"),
    ...engine(),
  }),
  Output: {
    ...object({
      text: { type: "string" },
      next: { ...count(), description: "Hand it back as `from` for what comes next" },
      ended: { type: "boolean", description: "Nothing comes after this" },
      skipped: {
        type: "integer",
        minimum: 1,
        description: "So many bytes from `from` on are no longer kept: the text begins after them. Otherwise left out",
      },
    }),
    required: ["text", "next", "ended"],
  },
};
