import { sql } from "kysely";
import type { Registry } from "../define/registry.ts";
import type { Database } from "../engine/ports.ts";
import { text } from "../sql/parts.ts";
import { statement } from "../sql/statement.ts";

/** Columns of a table that its fence knows nothing of: all, where there is no fence. */
export interface Undecided {
  readonly table: string;
  readonly columns: readonly string[];
}

/**
 * The columns about which no `fenceTable` has decided whether they are managed, of every table whose rows are locked:
 * those of pipelines and those of related rows. Expect nothing of it in a test, over a migrated database: then nobody
 * adds a column and leaves it outside of the fence unawares.
 */
export async function undecidedColumns(database: Database, registry: Registry): Promise<readonly Undecided[]> {
  const { rows } = await database.run(
    statement<{ table: string; columns: string }>(
      "undecided",
      "all",
      sql`select t.name as "table", jsonb_agg(a.attname order by a.attnum)::text as columns
from (values ${sql.join(registry.lockedTables.map((name) => sql`(${text(name)})`))}) t(name)
  join pg_attribute a on a.attrelid = to_regclass(t.name) and a.attnum > 0 and not a.attisdropped
  left join pg_trigger g on g.tgrelid = a.attrelid and g.tgname = 'millrace_fence'
where not coalesce(jsonb_exists(cast(obj_description(g.oid, 'pg_trigger') as jsonb), a.attname::text), false)
group by t.name order by t.name`,
    ),
  );
  return rows.map(({ table, columns }) => ({ table, columns: JSON.parse(columns) as string[] }));
}
