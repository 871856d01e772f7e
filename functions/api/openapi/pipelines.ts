import { bad, body, count, list, missing, nullable, object, ok, operation, path, ref, text, time } from "./parts.ts";

export const pipelinePaths = {
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
      requestBody: body(object({ by: text() })),
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
      requestBody: body({ oneOf: [object({ pipeline: text() }), object({ table: text() })] }),
    },
  },
};

export const pipelineSchemas = {
  Pipeline: object({
    name: text(),
    table: text(),
    pausedAt: time("null while it runs"),
    pausedBy: nullable("string"),
    fetchedAt: time("when a fetcher last looked"),
    inFlight: object({ locked: count(), queued: count(), processing: count() }),
    due: count(),
    failed: count(),
    dead: count(),
  }),
};
