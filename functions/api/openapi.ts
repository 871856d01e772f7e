import { eventPaths, eventSchemas } from "./openapi/events.ts";
import { fleetPaths, fleetSchemas } from "./openapi/fleets.ts";
import { jobPaths, jobSchemas } from "./openapi/jobs.ts";
import { object, ok, operation, text } from "./openapi/parts.ts";
import { pipelinePaths, pipelineSchemas } from "./openapi/pipelines.ts";
import { volumePaths, volumeSchemas } from "./openapi/volumes.ts";

/** The API as an OpenAPI 3.1 document; `GET /openapi.json` serves it. A test keeps it in step with the routes. */
export const OPENAPI = {
  openapi: "3.1.0",
  info: {
    title: "Millrace reference application",
    version: "1",
    description:
      "Volumes, fleets of instances and jobs on them, which pipelines carry out at a cloud. On AWS every call is signed (SigV4).",
  },
  paths: {
    "/": { get: operation("Lists the routes", { 200: ok("The routes", { type: "object" }) }) },
    "/openapi.json": { get: operation("This document", { 200: ok("The document", { type: "object" }) }) },
    ...volumePaths,
    ...fleetPaths,
    ...jobPaths,
    ...eventPaths,
    ...pipelinePaths,
  },
  components: {
    schemas: {
      ...volumeSchemas,
      ...fleetSchemas,
      ...jobSchemas,
      ...eventSchemas,
      ...pipelineSchemas,
      Problem: {
        ...object({
          type: text(),
          title: text(),
          status: { type: "integer" },
          detail: text(),
          code: text(),
          fields: { type: "array", items: object({ field: text(), problem: text() }) },
        }),
        required: ["type", "title", "status", "detail", "code"],
        description: "RFC 9457; `fields`, where present, names each field that is wrong",
      },
    },
  },
} as const;
