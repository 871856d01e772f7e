import { sql } from "kysely";
import { ENGINE_COLUMNS } from "../define/columns.ts";
import type { Registry } from "../define/registry.ts";
import { MillraceError } from "../errors.ts";
import { table, text } from "../sql/parts.ts";
import { statement } from "../sql/statement.ts";
import { lockColumns } from "./lock-columns.ts";
import type { SchemaDatabase } from "./migrate.ts";

const ENGINE: readonly string[] = ENGINE_COLUMNS;

/**
 * Types that the Data API cannot answer with: a claim reads the whole row, so one such column stops the pipeline.
 * https://docs.aws.amazon.com/AmazonRDS/latest/AuroraUserGuide/data-api.operations.html
 */
const UNANSWERABLE = [
  ...["interval", "timetz", "char", "money", "xml", "macaddr", "int8range", "daterange", "tsrange"],
  ...["point", "line", "lseg", "box", "path", "polygon", "circle", "regclass", "regtype"],
];

/**
 * The columns of a table, checked for those that a pipeline needs, those that locks name, and types that it cannot read.
 * @throws COLUMN_MISSING, COLUMN_TYPE
 */
async function tableColumns(database: SchemaDatabase, registry: Registry, name: string): Promise<readonly string[]> {
  const { rows } = await database.run(
    statement<{ name: string; type: string }>(
      "columns",
      "all",
      sql`select a.attname::text as name, y.typname::text as type from pg_attribute a join pg_type y on y.oid = a.atttypid where a.attrelid = to_regclass(${name}) and a.attnum > 0 and not a.attisdropped`,
    ),
  );
  const columns = rows.map((r) => r.name);
  const missing = [...ENGINE, ...lockColumns(registry, name)].filter((c) => !columns.includes(c));
  if (missing.length > 0) throw new MillraceError("COLUMN_MISSING", { table: name, columns: missing.join(", ") });
  const unanswerable = rows.filter((r) => UNANSWERABLE.includes(r.type)).map((r) => `${r.name} (${r.type})`);
  if (unanswerable.length > 0)
    throw new MillraceError("COLUMN_TYPE", { table: name, columns: unanswerable.join(", ") });
  return columns;
}

/**
 * Whatever makes a row ready makes it due: an update by anybody that changes a column named in a `ready` of the table,
 * and leaves `due_at` alone, sets `due_at` to now.
 */
export async function createDueTrigger(database: SchemaDatabase, registry: Registry, name: string): Promise<void> {
  const columns = await tableColumns(database, registry, name);
  const watched = registry.readyNames(name).filter((c) => columns.includes(c) && !ENGINE.includes(c));
  const list = (row: string) => sql.join(watched.map((c) => sql.ref(`${row}.${c}`)));
  const trigger = sql.id("millrace_due");
  if (watched.length === 0) {
    await database.run(statement("trigger", "drop", sql`drop trigger if exists ${trigger} on ${table(name)}`));
    return;
  }
  if (await isCurrent(database, name, watched)) return;
  await database.run(
    statement(
      "trigger",
      "create",
      sql`create or replace trigger ${trigger} before update on ${table(name)} for each row
        when (row(${list("old")}) is distinct from row(${list("new")}) and old.due_at is not distinct from new.due_at)
        execute function millrace.make_due()`,
    ),
    { patient: true },
  );
  await database.run(
    statement(
      "trigger",
      "comment",
      sql`comment on trigger ${trigger} on ${table(name)} is ${sql.lit(watched.join(" "))}`,
    ),
    { patient: true },
  );
}

/** A trigger that watches these columns already is left alone: replacing it takes a lock on the table. */
async function isCurrent(database: SchemaDatabase, name: string, watched: readonly string[]): Promise<boolean> {
  const { rows } = await database.run(
    statement<{ about: string | null }>(
      "trigger",
      "about",
      sql`select obj_description(g.oid, 'pg_trigger') as about from pg_trigger g where g.tgrelid = to_regclass(${name}) and g.tgname = ${text("millrace_due")}`,
    ),
  );
  return rows[0]?.about === watched.join(" ");
}
