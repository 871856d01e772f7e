import { sql } from "kysely";
import { rows, type Sql, table } from "./parts.ts";

/** New rows of one table that name the same columns, so that the others get their defaults. */
export interface InsertGroup {
  readonly table: string;
  readonly columns: readonly string[];
  readonly rows: readonly {
    readonly item: string;
    readonly token: string;
    readonly row: Readonly<Record<string, unknown>>;
    readonly nows: readonly string[];
  }[];
}

/** Adds the statement's instant under each of the named columns. */
export const withNows = (values: Sql, nows: Sql): Sql =>
  sql`coalesce(${values}, '{}'::jsonb) || coalesce((select jsonb_object_agg(c, now()) from jsonb_array_elements_text(${nows}) c), '{}'::jsonb)`;

/** `(a, b) = (select p.a, p.b from the patch)`: only these columns, each read by its own type's input function. */
export const patchColumns = (columns: readonly string[], patch: Sql): Sql =>
  sql`(${sql.join(columns.map((c) => sql.id(c)))}) = (select ${sql.join(columns.map((c) => sql.ref(`p.${c}`)))} from ${patch})`;

/** Inserts the rows of those items that stand in CTE `ok` (id, token). */
export function insertOf(group: InsertGroup): Sql {
  const columns = group.columns.map((c) => sql.id(c));
  const given = rows(group.rows, { item: "uuid", token: "uuid", row: "jsonb", nows: "jsonb" });
  // a row of defaults alone names no column: an empty list is written as no list
  const list = columns.length === 0 ? sql`` : sql`(${sql.join(columns)})`;
  return sql`insert into ${table(group.table)} ${list} select ${sql.join(group.columns.map((c) => sql.ref(`p.${c}`)))}
    from ${given} x join ok on ok.id = x.item and ok.token = x.token
    cross join lateral jsonb_populate_record(null::${table(group.table)}, ${withNows(sql`x.row`, sql`x.nows`)}) p`;
}
