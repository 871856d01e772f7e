import type { Hono } from "hono";
import type { Cloud } from "../cloud/cloud.ts";
import { jobJson } from "./job-json.ts";
import { readJobOutput } from "./job-output.ts";
import type { JobRows } from "./job-rows.ts";
import { ApiProblem } from "./problems.ts";
import { JobQuery, NewJob, OutputQuery, readBody, readId, readQuery } from "./requests.ts";

/** `/jobs`: submit, list, show, stop, output. `cloud` is asked for the output of a job that runs. */
export function addJobRoutes(app: Hono, jobs: JobRows, cloud: () => Cloud): void {
  app.post("/jobs", async (c) => {
    const row = await jobs.create(await readBody(c.req.raw, NewJob));
    return c.json(jobJson(row), 201, { location: `/jobs/${row.id}` });
  });

  app.get("/jobs", async (c) => {
    const { items, nextCursor } = await jobs.list(readQuery(c.req.raw, JobQuery));
    return c.json({ items: items.map(jobJson), nextCursor });
  });

  app.get("/jobs/:id", async (c) => {
    const id = readId(c.req.param("id"));
    const row = await jobs.get(id);
    if (row === undefined) throw new ApiProblem("JOB_UNKNOWN", { id });
    return c.json(jobJson(row));
  });

  app.post("/jobs/:id/stop", async (c) => c.json(jobJson(await jobs.requestStop(readId(c.req.param("id")))), 202));

  app.get("/jobs/:id/output", async (c) => {
    const id = readId(c.req.param("id"));
    const { from } = readQuery(c.req.raw, OutputQuery);
    const row = await jobs.outputOf(id);
    if (row === undefined) throw new ApiProblem("JOB_UNKNOWN", { id });
    return c.json(await readJobOutput(id, row, from, cloud));
  });
}
