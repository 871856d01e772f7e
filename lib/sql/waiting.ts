import { sql } from "kysely";
import { pipelineOf, type Scope, type Sql, table } from "./parts.ts";

/**
 * Selects the pipelines whose rows made way for main row `w` and are due, where `freed` says that it waits for them no
 * more. By the statement's snapshot.
 */
export function yielders({ registry, pipeline: p }: Scope, freed: Sql): readonly Sql[] {
  return registry.tables.flatMap((children) =>
    registry
      .yieldsOf(children)
      .filter((y) => y.table === p.table && y.pipelines.includes(p.name))
      .map(
        ({ column }) =>
          sql`select ${pipelineOf(registry.of(children))} from ${table(children)} t where ${sql.ref(`t.${column}`)} = w.id and ${freed} and t.due_at <= now() and (t.lock_expires_at is null or t.lock_expires_at < now())`,
      ),
  );
}

/** A JSON list of the names that the given selects find, without doubles. */
export const nameList = (selects: readonly Sql[]): Sql =>
  selects.length === 0
    ? sql`'[]'`
    : sql`coalesce((select json_agg(distinct n.name) from (${sql.join(selects, sql` union all `)}) n(name) where n.name is not null), '[]')::text`;
