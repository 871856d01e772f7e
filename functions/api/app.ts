import { Hono } from "hono";
import { OPENAPI } from "./openapi.ts";
import type { PipelineControl } from "./pipeline-control.ts";
import { addPipelineRoutes } from "./pipeline-routes.ts";
import { ApiProblem, problemResponse } from "./problems.ts";
import { addVolumeRoutes } from "./volume-routes.ts";
import type { VolumeRows } from "./volume-rows.ts";

export interface ApiPorts {
  readonly volumes: VolumeRows;
  readonly pipelines: PipelineControl;
  /** Takes an error that nobody foresaw; its answer names the reference. */
  readonly logError: (reference: string, error: unknown) => void;
}

/** The HTTP API, independent of what carries it. Every error is a problem (application/problem+json). */
export function createApp({ volumes, pipelines, logError }: ApiPorts): Hono {
  const app = new Hono();
  addVolumeRoutes(app, volumes);
  addPipelineRoutes(app, pipelines);
  app.get("/", (c) => c.json({ routes: app.routes.map(({ method, path }) => `${method} ${path}`) }));
  app.get("/openapi.json", (c) => c.json(OPENAPI));
  app.notFound((c) => {
    const { method, path } = c.req;
    return problemResponse(new ApiProblem("ROUTE_UNKNOWN", { method, path }), logError);
  });
  app.onError((error) => problemResponse(error, logError));
  return app;
}
