import type { Hono } from "hono";
import { ApiProblem } from "./problems.ts";
import { NewVolume, readBody, readId, readQuery, VolumeQuery } from "./requests.ts";
import { volumeJson } from "./volume-json.ts";
import type { VolumeRows } from "./volume-rows.ts";

/** `/volumes`: create, list, show, delete. */
export function addVolumeRoutes(app: Hono, volumes: VolumeRows): void {
  app.post("/volumes", async (c) => {
    const { name, sizeGb } = await readBody(c.req.raw, NewVolume);
    const row = await volumes.create({ name, size_gb: sizeGb });
    return c.json(volumeJson(row), 201, { location: `/volumes/${row.id}` });
  });

  app.get("/volumes", async (c) => {
    const { items, nextCursor } = await volumes.list(readQuery(c.req.raw, VolumeQuery));
    return c.json({ items: items.map(volumeJson), nextCursor });
  });

  app.get("/volumes/:id", async (c) => {
    const id = readId(c.req.param("id"));
    const row = await volumes.get(id);
    if (row === undefined) throw new ApiProblem("VOLUME_UNKNOWN", { id });
    return c.json(volumeJson(row));
  });

  app.delete("/volumes/:id", async (c) => {
    const id = readId(c.req.param("id"));
    const row = await volumes.requestDeletion(id);
    if (row === undefined) throw new ApiProblem("VOLUME_UNKNOWN", { id });
    return c.json(volumeJson(row), 202);
  });
}
