import type { Kysely } from "kysely";
import { type DataApiDatabase, MillraceError, type Page, paginate, type Writer } from "../../lib/index.ts";
import { event } from "../pipelines/events.ts";
import type { Database } from "../pipelines/schema.ts";
import type { InstanceRow } from "./instance-json.ts";
import { ENGINE_COLUMNS, ITEM_COLUMNS, type WithItems } from "./item-columns.ts";
import { ApiProblem } from "./problems.ts";

/** The rows behind `/instances` and `/fleets/{id}/instances`. */
export interface InstanceRows {
  get(id: string): Promise<InstanceRow | undefined>;
  /** Newest first. @throws FLEET_UNKNOWN, CURSOR_MALFORMED */
  list(fleetId: string, page: { limit: number; cursor?: string | undefined }): Promise<Page<InstanceRow>>;
  /**
   * Has them terminated, all or none; waits up to 3 s for their rows.
   * @throws FLEET_UNKNOWN, INSTANCES_FOREIGN, INSTANCES_BUSY, ROW_LOCKED
   */
  terminate(fleetId: string, ids: readonly string[]): Promise<readonly InstanceRow[]>;
}

export interface InstanceRowsOptions {
  readonly database: DataApiDatabase<Database>;
  readonly writer: Writer<Database>;
}

export function createInstanceRows({ database, writer }: InstanceRowsOptions): InstanceRows {
  const some = (ids: readonly string[]) =>
    database.read("get instances", (db) => instances(db).where("instances.id", "in", ids).execute());
  async function checkFleet(id: string) {
    const found = await database.read("get fleets", (db) =>
      db.selectFrom("fleets").select("id").where("id", "=", id).execute(),
    );
    if (found.length === 0) throw new ApiProblem("FLEET_UNKNOWN", { id });
  }
  return {
    get: async (id) => (await some([id]))[0],
    async list(fleetId, page) {
      await checkFleet(fleetId);
      return database.read("list instances", (db) =>
        paginate(instances(db), { table: "instances", filter: { fleet_id: fleetId }, ...page }),
      );
    },
    async terminate(fleetId, ids) {
      await checkFleet(fleetId);
      const found = await some(ids);
      const foreign = ids.filter((id) => !found.some((row) => row.id === id && row.fleet_id === fleetId));
      if (foreign.length > 0) throw foreignProblem(fleetId, foreign);
      try {
        await writer.withLock("instances", ids, {}, async (rows, held) => {
          const busy = rows.filter((row) => row.busy > 0 || row.status === "busy");
          if (busy.length > 0) throw new ApiProblem("INSTANCES_BUSY", { ids: busy.map(({ id }) => id).join(", ") });
          const staying = rows.filter((row) => row.status !== "terminating" && row.status !== "terminated");
          const events = staying.map((row) =>
            event("instance", row, `Termination of instance ${row.number} was asked for`),
          );
          await held.updateAll(
            staying.map(({ id }) => id),
            { status: "terminating", status_message: "terminated by request" },
            { insert: { events } },
          );
        });
      } catch (error) {
        if (error instanceof MillraceError && error.code === "NO_SUCH_ROW")
          throw foreignProblem(fleetId, [String(error.details["id"])]);
        // somebody took one of them meanwhile, and none was written
        if (error instanceof MillraceError && error.code === "LOCK_LOST")
          throw new MillraceError("ROW_LOCKED", { table: "instances", id: error.details["id"], seconds: 0 });
        throw error;
      }
      const now = await some(ids);
      // One that is gone by now was terminated as it was asked for.
      return ids.map((id) => now.find((row) => row.id === id) ?? found.find((row) => row.id === id)!);
    },
  };
}

const foreignProblem = (fleet: string, ids: readonly string[]) =>
  new ApiProblem("INSTANCES_FOREIGN", { fleet, ids: ids.join(", ") });

export function instances(db: Kysely<Database>) {
  return db
    .withTables<WithItems>()
    .selectFrom("instances")
    .leftJoin("millrace.items as i", (join) =>
      join.onRef("i.item_id", "=", "instances.id").on("i.pipeline", "=", "instances"),
    )
    .select([
      "instances.id",
      "fleet_id",
      "number",
      "instances.status",
      "busy",
      "slots",
      "provider_id",
      "status_message",
    ])
    .select(ENGINE_COLUMNS.map((column) => `instances.${column}` as const))
    .select(ITEM_COLUMNS);
}
