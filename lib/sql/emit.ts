import { sql } from "kysely";
import { type InsertGroup, insertOf } from "./insert.ts";
import { lines, rows } from "./parts.ts";
import { type Statement, statement } from "./statement.ts";

/** Inserts rows, whatever their tables, at one instant. A row whose id is there already was inserted by an earlier try. */
export function emitSql(
  name: string,
  key: { readonly id: string; readonly token: string },
  groups: readonly InsertGroup[],
): Statement<never> {
  const inserts = groups.map(
    (group, n) =>
      sql`${sql.id(`ins_${n}`)} as (${insertOf(group)}${group.columns.includes("id") ? sql` on conflict (id) do nothing` : sql``})`,
  );
  return statement(
    "emit",
    name,
    sql`with
ok as materialized (select * from ${rows([key], { id: "uuid", token: "uuid" })} x),
${lines(inserts)}
select 1 as done where false`,
  );
}
