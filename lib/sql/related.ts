import { sql } from "kysely";
import type { Registry } from "../define/registry.ts";
import { type Sql, table, text } from "./parts.ts";

/*
 * Locks on related rows. Each carries the token of its main row, an owner that names the pipeline (for children) or the
 * pipeline and the main row (for shared rows), and stands in `millrace.items.related` of the main row's item:
 * {"instances": ["<id>", …]}.
 */

const UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";

/** The id behind the colon of an owner `pipeline:id`; null where there is none. */
const ownerId = (owner: Sql): Sql =>
  sql`case when split_part(${owner}, ':', 2) ~ ${sql.lit(UUID)} then cast(split_part(${owner}, ':', 2) as uuid) end`;

/**
 * Row `t` carries a related lock that is dead: its main row is gone, or carries another token or none, so that no apply
 * with it can be accepted any more, and anybody may take the row, whatever the lock's expiry. Reads the main tables by
 * the statement's snapshot: the verdict holds only for the token that it was made on. Read it first, then lock the row
 * `where lock_token = seen.lock_token`; otherwise the row counts as held.
 */
export function deadLock(registry: Registry, name: string): Sql {
  const uses = registry.locksOn(name);
  if (uses.length === 0) return sql`false`;
  const verdicts = [...new Set(uses.map((u) => u.pipeline))].flatMap((pipeline) => {
    const locks = uses.filter((u) => u.pipeline === pipeline).map((u) => u.lock);
    const main = (id: Sql) =>
      sql`not exists (select 1 from ${table(pipeline.table)} m where m.id = ${id} and m.lock_token = t.lock_token)`;
    // the owner does not say by which column the row was locked: no parent that any of them names may carry the token
    const parents = locks.flatMap((lock) => (lock.kind === "children" ? [main(sql.ref(`t.${lock.column}`))] : []));
    const shared = locks.some((lock) => lock.kind !== "children");
    return [
      ...(parents.length === 0
        ? []
        : [sql`t.lock_owner = ${text(pipeline.name)} and ${sql.join(parents, sql` and `)}`]),
      ...(shared
        ? [sql`starts_with(t.lock_owner, ${text(`${pipeline.name}:`)}) and ${main(ownerId(sql.ref("t.lock_owner")))}`]
        : []),
    ];
  });
  return sql`(t.lock_token is not null and coalesce(${sql.join(verdicts, sql` or `)}, false))`;
}

/**
 * An `owner` by which row `t` is reserved for a parent still means something: the parent waits, or works. True of every
 * other owner. By the statement's snapshot.
 */
export function stillReserved(registry: Registry, name: string, owner: Sql): Sql {
  const uses = registry
    .locksOn(name)
    .flatMap(({ pipeline, lock }) => (lock.kind === "children" ? [{ pipeline, column: lock.column }] : []));
  if (uses.length === 0) return sql`true`;
  const names = sql.join(uses.map(({ pipeline }) => text(pipeline.name)));
  const waits = uses.map(
    ({ pipeline, column }) =>
      sql`${owner} = ${text(pipeline.name)} and exists (select 1 from ${table(pipeline.table)} m where m.id = ${sql.ref(`t.${column}`)} and m.lock_owner = ${text(pipeline.name)})`,
  );
  return sql`(${owner} not in (${names}) or ${sql.join(waits, sql` or `)})`;
}

/**
 * Row `t` makes way for a parent: one of the pipelines that lock it as a child works on the parent, or waits for all of
 * the children (it has reset the parent within the last minute and kept its owner on it). By the statement's snapshot.
 * A taker whose own rows are such parents names their table: it does not make way for itself.
 */
export function yielding(registry: Registry, name: string, taker?: string): Sql {
  const yields = registry.yieldsOf(name).filter((y) => y.table !== taker);
  if (yields.length === 0) return sql`false`;
  const parents = yields.map(
    ({ table: parent, column, pipelines }) =>
      sql`exists (select 1 from ${table(parent)} y where y.id = ${sql.ref(`t.${column}`)} and y.lock_owner in (${sql.join(pipelines.map(text))})
      and (y.lock_expires_at > now() or y.last_processed_at > now() - interval '1 minute'))`,
  );
  return sql`(${sql.join(parents, sql` or `)})`;
}
