import type { Hono } from "hono";
import type { PipelineControl } from "./pipeline-control.ts";
import { Hint, Pause, readBody } from "./requests.ts";

/** `/pipelines` and `/hints`: look at the engine and steer it. */
export function addPipelineRoutes(app: Hono, control: PipelineControl): void {
  app.get("/pipelines", async (c) => c.json({ items: await control.list(), nextCursor: null }));

  app.post("/pipelines/:name/pause", async (c) => {
    const { by } = await readBody(c.req.raw, Pause);
    return c.json(await control.pause(c.req.param("name"), by));
  });

  app.post("/pipelines/:name/resume", async (c) => c.json(await control.resume(c.req.param("name"))));

  app.post("/hints", async (c) => {
    const hint = await readBody(c.req.raw, Hint);
    await control.hint(hint);
    return c.json(hint, 202);
  });
}
