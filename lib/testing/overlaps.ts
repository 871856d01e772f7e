import { sql } from "kysely";
import type { Registry } from "../define/registry.ts";
import type { Database } from "../engine/ports.ts";
import { table as tableOf, text } from "../sql/parts.ts";
import { statement } from "../sql/statement.ts";

/** A row that more than one state claims: `volumes.submitted` and `volumes.deleting`, say. */
export interface Overlap {
  readonly table: string;
  readonly id: string;
  /** `pipeline.state` of each, in the order of the registry. */
  readonly states: readonly string[];
}

/**
 * The rows (100 a table at most) that are ready for more than one state. A row must be ready for one at a time: call
 * this in a test that has rows of every kind in its tables, and expect nothing.
 */
export async function findOverlaps(database: Database, registry: Registry): Promise<readonly Overlap[]> {
  const found: Overlap[] = [];
  for (const table of registry.tables) {
    const states = registry
      .of(table)
      .flatMap((p) =>
        p.states.map((s) => ({ name: `${p.name}.${s.name}`, ready: sql.raw(`coalesce((${s.ready.aliased}), false)`) })),
      );
    const names = sql.join(states.map(({ name, ready }) => sql`case when ${ready} then ${text(name)} end`));
    const count = sql.join(
      states.map(({ ready }) => sql`${ready}::int`),
      sql` + `,
    );
    const { rows } = await database.run(
      statement<{ id: string; states: string }>(
        "overlaps",
        table,
        sql`select t.id, concat_ws(' ', ${names}) as states from ${tableOf(table)} t where ${count} > 1 order by t.id limit 100`,
      ),
    );
    found.push(...rows.map((r) => ({ table, id: r.id, states: r.states.split(" ") })));
  }
  return found;
}
