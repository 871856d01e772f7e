import type { Hono } from "hono";
import { instanceJson } from "./instance-json.ts";
import type { InstanceRows } from "./instance-rows.ts";
import { ApiProblem } from "./problems.ts";
import { InstanceIds, PageQuery, readBody, readId, readQuery } from "./requests.ts";

/** `/instances` and `/fleets/{id}/instances`: list, show, terminate. */
export function addInstanceRoutes(app: Hono, instances: InstanceRows): void {
  app.get("/fleets/:id/instances", async (c) => {
    const fleetId = readId(c.req.param("id"));
    const { items, nextCursor } = await instances.list(fleetId, readQuery(c.req.raw, PageQuery));
    return c.json({ items: items.map(instanceJson), nextCursor });
  });

  app.delete("/fleets/:id/instances", async (c) => {
    const fleetId = readId(c.req.param("id"));
    const { ids } = await readBody(c.req.raw, InstanceIds);
    const rows = await instances.terminate(fleetId, ids);
    return c.json({ items: rows.map(instanceJson), nextCursor: null }, 202);
  });

  app.get("/instances/:id", async (c) => {
    const id = readId(c.req.param("id"));
    const row = await instances.get(id);
    if (row === undefined) throw new ApiProblem("INSTANCE_UNKNOWN", { id });
    return c.json(instanceJson(row));
  });
}
