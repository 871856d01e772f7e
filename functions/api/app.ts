import { Hono } from "hono";
import type { Cloud } from "../cloud/cloud.ts";
import { addEventRoutes, type ListEvents } from "./event-routes.ts";
import { addFleetRoutes } from "./fleet-routes.ts";
import type { FleetRows } from "./fleet-rows.ts";
import { addInstanceRoutes } from "./instance-routes.ts";
import type { InstanceRows } from "./instance-rows.ts";
import { addJobRoutes } from "./job-routes.ts";
import type { JobRows } from "./job-rows.ts";
import { OPENAPI } from "./openapi.ts";
import type { PipelineControl } from "./pipeline-control.ts";
import { addPipelineRoutes } from "./pipeline-routes.ts";
import { ApiProblem, problemResponse } from "./problems.ts";
import { addVolumeRoutes } from "./volume-routes.ts";
import type { VolumeRows } from "./volume-rows.ts";

export interface ApiPorts {
  readonly volumes: VolumeRows;
  readonly fleets: FleetRows;
  readonly instances: InstanceRows;
  readonly jobs: JobRows;
  readonly events: ListEvents;
  readonly pipelines: PipelineControl;
  /** Asked for the output of jobs that run, and for nothing else. */
  readonly cloud: () => Cloud;
  /** Takes an error that nobody foresaw; its answer names the reference. */
  readonly logError: (reference: string, error: unknown) => void;
}

/** The HTTP API, independent of what carries it. Every error is a problem (application/problem+json). */
export function createApp({ logError, ...ports }: ApiPorts): Hono {
  const app = new Hono();
  addVolumeRoutes(app, ports.volumes);
  addFleetRoutes(app, ports.fleets);
  addInstanceRoutes(app, ports.instances);
  addJobRoutes(app, ports.jobs, ports.cloud);
  addEventRoutes(app, ports.events);
  addPipelineRoutes(app, ports.pipelines);
  app.get("/", (c) => c.json({ routes: app.routes.map(({ method, path }) => `${method} ${path}`) }));
  app.get("/openapi.json", (c) => c.json(OPENAPI));
  app.notFound((c) => {
    const { method, path } = c.req;
    return problemResponse(new ApiProblem("ROUTE_UNKNOWN", { method, path }), logError);
  });
  app.onError((error) => problemResponse(error, logError));
  return app;
}
