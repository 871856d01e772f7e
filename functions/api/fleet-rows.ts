import { type Kysely, sql, type Transaction } from "kysely";
import {
  type DataApiDatabase,
  type Hints,
  MillraceError,
  NOW,
  type Page,
  paginate,
  type Writer,
} from "../../lib/index.ts";
import { event } from "../pipelines/events.ts";
import type { Database } from "../pipelines/schema.ts";
import type { FleetRow } from "./fleet-json.ts";
import { ENGINE_COLUMNS, ITEM_COLUMNS, type WithItems } from "./item-columns.ts";
import { ApiProblem } from "./problems.ts";

interface NewFleet {
  readonly name: string;
  readonly nodes: number;
  readonly slots: number;
}

/** The rows behind `/fleets`. */
export interface FleetRows {
  /** @throws NAME_TAKEN */
  create(fleet: NewFleet): Promise<FleetRow>;
  get(id: string): Promise<FleetRow | undefined>;
  /** Newest first. @throws CURSOR_MALFORMED */
  list(query: { limit: number; cursor?: string | undefined; name?: string | undefined }): Promise<Page<FleetRow>>;
  /** Waits up to 3 s for the row. @throws FLEET_UNKNOWN, FLEET_DELETING, ROW_LOCKED */
  resize(id: string, nodes: number): Promise<FleetRow>;
  /** Stores the wish, also while the row is held. @throws FLEET_UNKNOWN */
  requestDeletion(id: string): Promise<FleetRow>;
}

export interface FleetRowsOptions {
  readonly database: DataApiDatabase<Database>;
  readonly writer: Writer<Database>;
  readonly hints: Hints;
}

export function createFleetRows({ database, writer, hints }: FleetRowsOptions): FleetRows {
  const get = (id: string) =>
    database.read("get fleets", async (db) => {
      const [row] = await fleets(db).where("fleets.id", "=", id).execute();
      return row;
    });
  async function known(id: string): Promise<FleetRow> {
    const row = await get(id);
    if (row === undefined) throw new ApiProblem("FLEET_UNKNOWN", { id });
    return row;
  }
  return {
    get,
    async create(fleet) {
      // Made here, so that a repetition after a lost answer finds the row and makes no second one.
      const id = crypto.randomUUID();
      const taken = () => new MillraceError("NAME_TAKEN", { namespace: "fleets", name: fleet.name });
      await writer
        .withUniqueName("fleets", fleet.name, async (tx) => {
          const [other] = await tx.selectFrom("fleets").select("id").where("name", "=", fleet.name).execute();
          if (other === undefined) await insert(tx, id, fleet);
          else if (other.id !== id) throw taken();
        })
        .catch((error: unknown) => {
          // somebody who does not take part in the lock on names was faster
          throw isDuplicate(error) ? taken() : error;
        });
      await hints.send({ table: "fleets" });
      return known(id);
    },
    list({ name, ...page }) {
      return database.read("list fleets", (db) => paginate(fleets(db), { table: "fleets", filter: { name }, ...page }));
    },
    async resize(id, nodes) {
      const before = await known(id);
      if (before.to_be_deleted) throw new ApiProblem("FLEET_DELETING", { id });
      const events = [
        event("fleet", { id }, `Fleet ${before.name} was resized from ${before.nodes} to ${nodes} nodes`),
      ];
      await gone(id, writer.update("fleets", id, { nodes, resized_at: NOW }, { insert: { events } }));
      return known(id);
    },
    async requestDeletion(id) {
      const before = await known(id);
      const events = before.to_be_deleted
        ? []
        : [event("fleet", { id }, `Deletion of fleet ${before.name} was asked for`)];
      await gone(id, writer.request("fleets", id, { to_be_deleted: true }, { insert: { events } }));
      // A fast pipeline may have deleted it by now; the wish was accepted all the same.
      return (await get(id)) ?? { ...before, to_be_deleted: true };
    },
  };
}

/** A row that went meanwhile is unknown like any other. */
async function gone(id: string, write: Promise<unknown>): Promise<void> {
  try {
    await write;
  } catch (error) {
    if (error instanceof MillraceError && error.code === "NO_SUCH_ROW") throw new ApiProblem("FLEET_UNKNOWN", { id });
    throw error;
  }
}

const isDuplicate = (error: unknown) =>
  error instanceof MillraceError && error.code === "STATEMENT_FAILED" && error.details["sqlState"] === "23505";

async function insert(tx: Transaction<Database>, id: string, { name, nodes, slots }: NewFleet): Promise<void> {
  const message = `Fleet ${name} was created with ${nodes} nodes`;
  await sql`/* millrace:create fleets */ with made as (
  insert into fleets (id, name, nodes, slots) values (${id}, cast(${name} as text), ${nodes}, ${slots}) returning id)
insert into events (kind, subject_id, message) select 'fleet', id, cast(${message} as text) from made`.execute(tx);
}

export function fleets(db: Kysely<Database>) {
  return db
    .withTables<WithItems>()
    .selectFrom("fleets")
    .leftJoin("millrace.items as i", (join) =>
      join.onRef("i.item_id", "=", "fleets.id").on("i.pipeline", "=", "fleets"),
    )
    .select(["fleets.id", "name", "nodes", "slots", "to_be_deleted", "status_message"])
    .select(ENGINE_COLUMNS.map((column) => `fleets.${column}` as const))
    .select(ITEM_COLUMNS)
    .select(
      sql<string>`(select coalesce(jsonb_object_agg(n.status, n.count), '{}')::text
from (select status, count(*) from instances where fleet_id = fleets.id group by status) n)`.as("instances"),
    );
}
