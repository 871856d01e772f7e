import { sql } from "kysely";
import type { Pipeline } from "../define/pipeline.ts";
import type { Registry } from "../define/registry.ts";
import { EACH, readyAny, type Sql, seconds, table, text, UNLOCK } from "./parts.ts";
import { deadLock } from "./related.ts";

/** Pipelines that lock rows of a table as children, with the column that names the parent. */
interface Reserver {
  readonly pipeline: Pipeline;
  readonly column: string;
}

/**
 * CTEs of one locked table: c_ the rows to free, by snapshot; s_ those of them that were locked, in id order; f_ the rows
 * unlocked. A verdict that reads the row alone is reached again under its lock; one that reads other tables holds for
 * the token and owner that it was made on. Without `scan` only rows that `flight` knows of are looked at.
 */
export function unlockOf(registry: Registry, name: string, n: number, scan: boolean): readonly Sql[] {
  const [c, s, f] = ["c", "s", "f"].map((prefix) => sql.id(`${prefix}_${n}`)) as [Sql, Sql, Sql];
  const stuck = stuckLock(registry, name);
  const others = sql`${deadLock(registry, name)} or ${idleReservation(registry, name)}`;
  const seen = sql`select t.id, t.lock_token as token, t.lock_owner as owner, ${stuck} as stuck, ${others} as dead from ${table(name)} t`;
  const held = sql`(t.lock_owner is not null or t.lock_token is not null)`;
  const candidates = scan
    ? sql`${seen} where ${held} ${EACH}`
    : sql`select t.* from (select distinct k.id from (${knownIds(registry, name)}) k) k cross join lateral (${seen} where t.id = k.id and ${held} ${EACH}) t`;
  const before = n === 0 ? sql`true` : sql`(select count(*) from ${sql.id(`s_${n - 1}`)}) >= 0`;
  const still = (row: Sql) =>
    sql`(${stuck} or ${row}.dead and t.lock_token is not distinct from ${row}.token and t.lock_owner is not distinct from ${row}.owner)`;
  return [
    sql`${c} as materialized (select r.id, r.token, r.owner, r.dead from (${candidates}) r where r.stuck or r.dead)`,
    sql`${s} as materialized (
  select c.* from (select * from ${c} order by id) c cross join lateral (
    select 1 from ${table(name)} t where t.id = c.id and ${still(sql`c`)} for no key update skip locked) l where ${before})`,
    sql`${f} as (
  update ${table(name)} t set ${UNLOCK} from ${s} s where t.id = s.id and ${still(sql`s`)} returning t.id)`,
  ];
}

/**
 * Row `t` is under no live lock, and nobody comes for it: its owner is no pipeline that works on this table or locks its
 * rows, or is one of this table that does not want it any more; or nobody owns it, and an expired token is left.
 */
function stuckLock(registry: Registry, name: string): Sql {
  const own = registry.of(name);
  const uses = registry.locksOn(name);
  // a worker that is merely slow gets as long again before its lock is cleared
  const timeouts = [...own, ...uses.map((u) => u.pipeline)].map((p) => p.options.lockTimeoutSeconds);
  const grace = seconds(Math.max(...timeouts));
  const wanted = own.map((p) => sql`t.lock_owner = ${text(p.name)} and t.due_at is not null and ${readyAny(p, "t")}`);
  const related = uses.map(({ pipeline, lock }) =>
    lock.kind === "children"
      ? sql`t.lock_owner = ${text(pipeline.name)}`
      : sql`t.lock_token is not null and starts_with(t.lock_owner, ${text(`${pipeline.name}:`)})`,
  );
  return sql`((t.lock_owner is not null or t.lock_token is not null) and (t.lock_expires_at is null or t.lock_expires_at < now() - ${grace})
    and not coalesce(${sql.join([...wanted, ...related], sql` or `)}, false))`;
}

/** Row `t` is kept for a parent that waits no longer: its owner is not that pipeline. By the statement's snapshot. */
function idleReservation(registry: Registry, name: string): Sql {
  const reservers = parentsOf(registry, name);
  const idle = [...new Set(reservers.map((r) => r.pipeline))].map((pipeline) => {
    const waits = reservers
      .filter((r) => r.pipeline === pipeline)
      .map(
        ({ column }) => sql`exists (
      select 1 from ${table(pipeline.table)} m where m.id = ${sql.ref(`t.${column}`)} and m.lock_owner = ${text(pipeline.name)} ${EACH})`,
      );
    return sql`t.lock_owner = ${text(pipeline.name)} and not (${sql.join(waits, sql` or `)})`;
  });
  return idle.length === 0 ? sql`false` : sql`(t.lock_token is null and coalesce(${sql.join(idle, sql` or `)}, false))`;
}

/** Ids of the table that `flight` knows of: main rows, related rows, and children that a waiting parent may have reserved. */
function knownIds(registry: Registry, name: string): Sql {
  const own = registry
    .of(name)
    .map((p) => sql`select f.item_id as id from flight f where f.pipeline = ${text(p.name)}`);
  const related =
    registry.locksOn(name).length === 0
      ? []
      : [
          sql`select cast(e.id as uuid) as id from flight f cross join lateral jsonb_array_elements_text(f.related -> ${text(name)}) e(id)`,
        ];
  const reserved = parentsOf(registry, name, true).map(
    ({ pipeline, column }) =>
      sql`select r.id from flight f cross join lateral (
      select t.id from ${table(name)} t where ${sql.ref(`t.${column}`)} = f.item_id and t.lock_owner = ${text(pipeline.name)} and t.lock_token is null ${EACH}) r
    where f.pipeline = ${text(pipeline.name)} and f.resets > 0`,
  );
  return sql.join([...own, ...related, ...reserved], sql` union all `);
}

/** Who locks rows of the table as children; `reserving`: who reserves them at contention. */
function parentsOf(registry: Registry, name: string, reserving = false): readonly Reserver[] {
  const found = new Map<string, Reserver>();
  for (const pipeline of registry.pipelines)
    for (const lock of pipeline.states.flatMap((s) => Object.values(s.locks)))
      if (lock.kind === "children" && lock.table === name && (lock.reserve || !reserving))
        found.set(`${pipeline.name} ${lock.column}`, { pipeline, column: lock.column });
  return [...found.values()];
}
