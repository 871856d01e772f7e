import { type Kysely, sql } from "kysely";
import { MillraceError } from "../errors.ts";

/** Written by the engine without a new token: locks, clocks. */
const UNMANAGED = ["last_processed_at", "due_at", "lock_expires_at", "lock_token", "lock_owner"] as const;

/** Types without an equality of their own, which are compared as text. */
const WITHOUT_EQUALITY = ["json", "_json"];

export interface FenceOptions {
  /**
   * Columns that anybody may write at any time, whoever holds the row: what people want of it (`Intent`), and what
   * foreign keys set. @default none
   */
  readonly intent?: readonly string[];
}

/**
 * Makes the database refuse writes past a lock, for use in a migration after `addPipelineColumns`: an update that changes
 * a managed column of a held row, and leaves its token as it is, and a deletion of a held row. Both fail with SQLSTATE
 * MR001 (`ROW_FENCED`), whoever tries. Managed is every column that the table has at this moment, but the engine's lock
 * and time columns and those of `intent`. Repeat it in the migration that adds a column: it replaces the fence.
 * @throws COLUMN_MISSING, FENCE_COLUMN
 */
// biome-ignore lint/suspicious/noExplicitAny: migrations know no schema
export async function fenceTable(db: Kysely<any>, table: string, { intent = [] }: FenceOptions = {}): Promise<void> {
  const { rows: columns } =
    await sql<Column>`select a.attname::text as name, y.typname::text as type, a.attgenerated <> '' as generated,
  exists (select 1 from pg_constraint c where c.conrelid = a.attrelid and c.contype = 'f' and a.attnum = any (c.conkey)
    and (c.confdeltype in ('n', 'd') or c.confupdtype in ('c', 'n', 'd'))) as keyed
from pg_attribute a join pg_type y on y.oid = a.atttypid
where a.attrelid = to_regclass(${table}) and a.attnum > 0 and not a.attisdropped order by a.attnum`.execute(db);
  check(table, columns, intent);
  const open: readonly string[] = [...UNMANAGED, ...intent];
  // a generated column follows others; a trigger before the update cannot see what it will be
  const managed = columns.filter((c) => !c.generated && !open.includes(c.name));
  const values = (row: "old" | "new") =>
    sql.join(
      managed.map(({ name, type }) => {
        const value = sql.ref(`${row}.${name}`);
        return WITHOUT_EQUALITY.includes(type) ? sql`cast(${value} as text)` : value;
      }),
    );
  await sql`create or replace trigger millrace_fence before update on ${sql.table(table)} for each row
    when (old.lock_token is not null and new.lock_token is not distinct from old.lock_token
      and row(${values("old")}) is distinct from row(${values("new")}))
    execute function millrace.refuse_unfenced()`.execute(db);
  await sql`create or replace trigger millrace_fence_delete before delete on ${sql.table(table)} for each row
    when (old.lock_token is not null and current_setting('millrace.deleting', true) is distinct from 'on')
    execute function millrace.refuse_unfenced()`.execute(db);
  // what has been decided about; `undecidedColumns` compares it with the table
  const decided = JSON.stringify(columns.map((c) => c.name));
  await sql`comment on trigger millrace_fence on ${sql.table(table)} is ${sql.lit(decided)}`.execute(db);
}

/**
 * Takes the fence away, for a migration that changes the type of a column or drops one: PostgreSQL refuses both while a
 * trigger names the column. Put it back in the same migration. Does nothing where there is none.
 */
// biome-ignore lint/suspicious/noExplicitAny: migrations know no schema
export async function unfenceTable(db: Kysely<any>, table: string): Promise<void> {
  await sql`drop trigger if exists millrace_fence on ${sql.table(table)}`.execute(db);
  await sql`drop trigger if exists millrace_fence_delete on ${sql.table(table)}`.execute(db);
}

interface Column {
  readonly name: string;
  readonly type: string;
  readonly generated: boolean;
  /** A foreign key's action writes it. */
  readonly keyed: boolean;
}

function check(table: string, columns: readonly Column[], intent: readonly string[]): void {
  const names = columns.map((c) => c.name);
  const lacking = UNMANAGED.filter((c) => !names.includes(c));
  if (lacking.length > 0) throw new MillraceError("COLUMN_MISSING", { table, columns: lacking.join(", ") });
  const refuse = (wrong: readonly string[], problem: string) => {
    if (wrong.length > 0) throw new MillraceError("FENCE_COLUMN", { table, columns: wrong.join(", "), problem });
  };
  refuse(
    intent.filter((c) => !names.includes(c)),
    "of `intent` do not exist: name columns of the table",
  );
  refuse(
    columns.filter((c) => c.keyed && !intent.includes(c.name)).map((c) => c.name),
    "are written by a foreign key (on delete set null, or the like), held or not: name them in `intent`",
  );
}
