import { pipelines } from "../../../functions/pipelines/index.ts";
import type { World } from "./world.ts";

const { signal } = new AbortController();

/** What describePipeline needs of a world, but for the rows. The world empties its tables before each test. */
export const described = (world: () => World) => ({
  database: () => world().api,
  registry: pipelines,
  services: () => ({ cloud: world().cloud }),
  clear: async () => undefined,
});

/** Rows that stand still: none is due, none is locked, and the cloud has what they name. */
export function readyRows(world: () => World) {
  const quiet = (table: string, id: string) => world().sql(`update ${table} set due_at = null where id = $1`, [id]);
  const insert = async (table: string, columns: Readonly<Record<string, unknown>>): Promise<string> => {
    const names = Object.keys(columns);
    const values = names.map((_, n) => `$${n + 1}`);
    const [row] = await world().sql(
      `insert into ${table} (${names.join(", ")}, due_at) values (${values.join(", ")}, null) returning id`,
      Object.values(columns),
    );
    return row!["id"];
  };
  const fleet = async (nodes = 1): Promise<string> => {
    const id = await world().fleet(nodes);
    await quiet("fleets", id);
    return id;
  };
  /** An instance of a fleet, up at the cloud. */
  const instance = async (fleetId: string, columns: Readonly<Record<string, unknown>> = {}): Promise<string> => {
    const id = crypto.randomUUID();
    const made = await world().cloud.createInstance({ key: id, tag: id, name: id }, { signal });
    return insert("instances", {
      id,
      fleet_id: fleetId,
      number: 1,
      slots: 1,
      status: "idle",
      provider_id: made.id,
      ...columns,
    });
  };
  /** An active volume at the cloud. */
  const volume = async (columns: Readonly<Record<string, unknown>> = {}): Promise<string> => {
    const id = crypto.randomUUID();
    const made = await world().cloud.createVolume({ key: id, tag: id, name: id, sizeGb: 1 }, { signal });
    return insert("volumes", { id, name: id, size_gb: 1, status: "active", provider_id: made.id, ...columns });
  };
  const job = (fleetId: string, columns: Readonly<Record<string, unknown>>): Promise<string> =>
    insert("jobs", { fleet_id: fleetId, fleet_name: "f", command: '["true"]', ...columns });
  /** A job with a place on an instance, and a volume there. */
  const placed = async (columns: Readonly<Record<string, unknown>>): Promise<string> => {
    const fleetId = await fleet();
    const at = await instance(fleetId, { status: "busy", busy: 1 });
    const volumeId = await volume({ attached: 1 });
    const id = await job(fleetId, { instance_id: at, volume_ids: [volumeId], ...columns });
    await insert("attachments", { volume_id: volumeId, instance_id: at, job_id: id });
    const [{ provider_id: instanceId }, { provider_id: cloudId }] = await Promise.all([
      world().row("instances", at),
      world().row("volumes", volumeId),
    ]);
    await world().cloud.attachVolume({ volumeId: String(cloudId), instanceId: String(instanceId) }, { signal });
    return id;
  };
  return { fleet, instance, volume, job, placed };
}
