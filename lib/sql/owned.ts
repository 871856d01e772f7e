import { sql } from "kysely";
import type { ChildrenLock } from "../define/locks.ts";
import type { Pipeline } from "../define/pipeline.ts";
import { type Scope, type Sql, text } from "./parts.ts";

/* Which rows of another table are a main row's, by their owner: the main row must be ours for it to count. */

/** Row `t` carries a lock that this pipeline took for main row `item`, in this attempt or in one that died; null = it takes none here. */
export function oursByOwner({ pipeline: p }: Scope, name: string, item: Sql): Sql | null {
  const owners = new Map<string, Sql>();
  for (const lock of p.states.flatMap((s) => Object.values(s.locks)).filter((k) => k.table === name))
    if (lock.kind === "children")
      owners.set(lock.column, sql`t.lock_owner = ${text(p.name)} and ${sql.ref(`t.${lock.column}`)} = ${item}`);
    else owners.set(":", sql`t.lock_owner = ${text(`${p.name}:`)} || ${item}`);
  return owners.size === 0 ? null : sql`(t.lock_token is not null and (${sql.join([...owners.values()], sql` or `)}))`;
}

/** The locks by which a pipeline reserves children of a table. */
export const reservingLocks = ({ states }: Pipeline, name: string): readonly ChildrenLock[] => [
  ...new Map(
    states
      .flatMap((s) => Object.values(s.locks))
      .filter((lock) => lock.kind === "children")
      .filter((lock) => lock.table === name && lock.reserve)
      .map((lock) => [lock.column, lock]),
  ).values(),
];

/** Row `t` is reserved for main row `item`; null = this pipeline reserves none here. */
export function reservedFor({ pipeline: p }: Scope, name: string, item: Sql): Sql | null {
  const columns = reservingLocks(p, name).map(({ column }) => sql`${sql.ref(`t.${column}`)} = ${item}`);
  return columns.length === 0
    ? null
    : sql`(t.lock_token is null and t.lock_owner = ${text(p.name)} and (${sql.join(columns, sql` or `)}))`;
}
