import type { Hono } from "hono";
import { fleetJson } from "./fleet-json.ts";
import type { FleetRows } from "./fleet-rows.ts";
import { ApiProblem } from "./problems.ts";
import { FleetQuery, NewFleet, Resize, readBody, readId, readQuery } from "./requests.ts";

/** `/fleets`: create, list, show, resize, delete. */
export function addFleetRoutes(app: Hono, fleets: FleetRows): void {
  app.post("/fleets", async (c) => {
    const row = await fleets.create(await readBody(c.req.raw, NewFleet));
    return c.json(fleetJson(row), 201, { location: `/fleets/${row.id}` });
  });

  app.get("/fleets", async (c) => {
    const { items, nextCursor } = await fleets.list(readQuery(c.req.raw, FleetQuery));
    return c.json({ items: items.map(fleetJson), nextCursor });
  });

  app.get("/fleets/:id", async (c) => {
    const id = readId(c.req.param("id"));
    const row = await fleets.get(id);
    if (row === undefined) throw new ApiProblem("FLEET_UNKNOWN", { id });
    return c.json(fleetJson(row));
  });

  app.patch("/fleets/:id", async (c) => {
    const id = readId(c.req.param("id"));
    const { nodes } = await readBody(c.req.raw, Resize);
    return c.json(fleetJson(await fleets.resize(id, nodes)));
  });

  app.delete("/fleets/:id", async (c) => {
    const row = await fleets.requestDeletion(readId(c.req.param("id")));
    return c.json(fleetJson(row), 202);
  });
}
