import { type Kysely, type RawBuilder, sql } from "kysely";
import { type DataApiDatabase, type Hints, MillraceError, type Page, paginate, type Writer } from "../../lib/index.ts";
import type { Database } from "../pipelines/schema.ts";
import { ITEM_COLUMNS, type WithItems } from "./item-columns.ts";
import type { VolumeStatus } from "./json.ts";
import type { VolumeRow } from "./volume-json.ts";

/** The rows behind `/volumes`. */
export interface VolumeRows {
  create(volume: { readonly name: string; readonly size_gb: number }): Promise<VolumeRow>;
  get(id: string): Promise<VolumeRow | undefined>;
  /** Newest first. @throws CURSOR_MALFORMED */
  list(query: VolumeQuery): Promise<Page<VolumeRow>>;
  /** Stores the wish, also while the row is held; undefined when there is no such row. */
  requestDeletion(id: string): Promise<VolumeRow | undefined>;
}

interface VolumeQuery {
  readonly limit: number;
  readonly cursor?: string | undefined;
  readonly status?: VolumeStatus | undefined;
  readonly name?: string | undefined;
}

export interface VolumeRowsOptions {
  readonly database: DataApiDatabase<Database>;
  readonly writer: Writer<Database>;
  readonly hints: Hints;
}

export function createVolumeRows({ database, writer, hints }: VolumeRowsOptions): VolumeRows {
  const get = async (id: string) => (await database.run({ name: "get volumes", query: getSql(id) })).rows[0];
  return {
    get,
    async create({ name, size_gb }) {
      const query = createSql(crypto.randomUUID(), name, size_gb);
      const { rows } = await database.run({ name: "create volumes", query });
      await hints.send({ table: "volumes" });
      return rows[0]!;
    },
    list({ limit, cursor, status, name }) {
      return database.read("list volumes", (db) =>
        paginate(volumes(db, status), { table: "volumes", limit, cursor, filter: { name } }),
      );
    },
    async requestDeletion(id) {
      const before = await get(id);
      if (before === undefined) return undefined;
      try {
        await writer.request("volumes", id, { to_be_deleted: true });
      } catch (error) {
        if (error instanceof MillraceError && error.code === "NO_SUCH_ROW") return undefined;
        throw error;
      }
      // A fast pipeline may have deleted it by now; the wish was accepted all the same.
      return (await get(id)) ?? { ...before, to_be_deleted: true };
    },
  };
}

/** The caller makes the id, so that a repetition after a lost answer finds the row and makes no second one. */
function createSql(id: string, name: string, sizeGb: number): RawBuilder<VolumeRow> {
  return sql<VolumeRow>`/* millrace:create volumes */ insert into volumes (id, name, size_gb)
values (${id}, cast(${name} as text), ${sizeGb}) on conflict (id) do update set name = excluded.name
returning ${ROW("volumes")}, null::text as item_state, null::int as attempts, null::text as last_error`;
}

function getSql(id: string): RawBuilder<VolumeRow> {
  return sql<VolumeRow>`/* millrace:get volumes */ select ${ROW("v")}, i.state as item_state, i.attempts, i.last_error
from volumes v left join millrace.items i on i.item_id = v.id and i.pipeline = 'volumes' where v.id = ${id}`;
}

const COLUMNS = [
  "id",
  "name",
  "size_gb",
  "status",
  "to_be_deleted",
  "due_at",
  "lock_owner",
  "lock_expires_at",
  "created_at",
  "last_processed_at",
] as const;
const ROW = (alias: string) => sql.join(COLUMNS.map((column) => sql.ref(`${alias}.${column}`)));

export function volumes(db: Kysely<Database>, status?: VolumeStatus) {
  return db
    .withTables<WithItems>()
    .selectFrom("volumes")
    .leftJoin("millrace.items as i", (join) =>
      join.onRef("i.item_id", "=", "volumes.id").on("i.pipeline", "=", "volumes"),
    )
    .select(COLUMNS.map((column) => `volumes.${column}` as const))
    .select(ITEM_COLUMNS)
    .$if(status !== undefined, (all) => all.where(FILTERS[status!]));
}

/** What the API shows as a status, as conditions; they do not overlap. */
const FILTERS: Readonly<Record<VolumeStatus, RawBuilder<boolean>>> = {
  submitted: sql`volumes.status = 'submitted' and not volumes.to_be_deleted and i.state is distinct from 'dead'`,
  failed: sql`volumes.status = 'submitted' and not volumes.to_be_deleted and i.state = 'dead'`,
  active: sql`volumes.status = 'active' and not volumes.to_be_deleted`,
  deleting: sql`volumes.to_be_deleted`,
};
