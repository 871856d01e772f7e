import { sql } from "kysely";
import type { Pipeline } from "../define/pipeline.ts";
import type { Registry } from "../define/registry.ts";
import { EACH, int, lines, type Sql, table, text } from "./parts.ts";
import { type Statement, statement } from "./statement.ts";
import { unlockOf } from "./sweep-rows.ts";

/** Finished items whose row is gone are kept this long. */
const KEEP_DAYS = 7;
/** A row that was reset is looked at for this long after its last pass, if nobody keeps it any more. */
const WATCH_MINUTES = 10;

export interface SweepRow {
  readonly table: string;
  /** Rows whose locks were cleared. */
  readonly unlocked: number;
  /** Items in flight that were ended, of all tables. */
  readonly ended: number;
  /** Items that are lost, but still know of related rows to free: another sweep right now finds most of them. */
  readonly left: number;
  /** Old items that were deleted, of all tables. */
  readonly deleted: number;
}

/**
 * Clears locks that nobody can take over any more, and ends items that no lock stands behind. Cheap by default: it
 * looks at the rows that millrace.items knows of, which are those in flight, their related rows, and those that wait
 * after a reset; `scan` reads the tables whole, for what no item knows of.
 *
 * A row is unlocked where its lock is not live and (a) its owner is no pipeline that works on this table or locks its
 * rows, (b) its owner does not want it any more (no `ready` of that owner holds, or `due_at` is null), or (c) nobody owns
 * it but an expired token is left. Whatever its expiry: (d) a related lock whose main row carries another token; (e) a
 * child kept for a parent that waits no longer. An item ends once no related row stands under its lock.
 * Never waits: rows and items that somebody else has locked are left for the next sweep.
 */
export function sweepSql(registry: Registry, scan: boolean): Statement<SweepRow> {
  const tables = registry.lockedTables;
  const last = sql.id(`s_${tables.length - 1}`);
  const names = sql.join(registry.pipelines.map((p) => text(p.name)));
  const tokenOfRow = (p: Pipeline) =>
    sql`i.pipeline = ${text(p.name)} and exists (select 1 from ${table(p.table)} t where t.id = i.item_id and t.lock_token = i.lock_token ${EACH})`;
  const rowOfItem = (p: Pipeline) =>
    sql`i.pipeline = ${text(p.name)} and exists (select 1 from ${table(p.table)} t where t.id = i.item_id)`;
  const ownedRow = (p: Pipeline) =>
    sql`i.pipeline = ${text(p.name)} and exists (select 1 from ${table(p.table)} t where t.id = i.item_id and t.lock_owner = i.pipeline ${EACH})`;
  const or = sql` or `;
  const unlockedIds = sql.join(
    tables.map((_, n) => sql`select s.id from ${sql.id(`s_${n}`)} s`),
    sql` union all `,
  );
  return statement(
    scan ? "scan" : "sweep",
    "all",
    sql`with
flight as materialized (
  select i.item_id, i.pipeline, i.lock_token, i.related, i.resets, i.finished_at from millrace.items i where i.finished_at is null and i.pipeline in (${names})
  union all
  select i.item_id, i.pipeline, null, i.related, i.resets, i.finished_at from millrace.items i where i.resets > 0 and i.finished_at is not null and i.pipeline in (${names})),
${lines(tables.flatMap((name, n) => unlockOf(registry, name, n, scan)))},
orphans as materialized (
  select l.*, c.rest from (
    select i.*, ${heldFor(registry)} as rest from flight i
    where i.finished_at is null and (not coalesce(${sql.join(registry.pipelines.map(tokenOfRow), or)}, false) or i.item_id in (${unlockedIds}))
      or i.finished_at < now() - make_interval(mins => ${int(WATCH_MINUTES)}) and not (${sql.join(registry.pipelines.map(ownedRow), or)})
    order by i.item_id, i.pipeline) c cross join lateral (
    select i.item_id, i.pipeline, i.lock_token, i.finished_at from millrace.items i
    where i.item_id = c.item_id and i.pipeline = c.pipeline and i.lock_token is not distinct from c.lock_token and i.finished_at is not distinct from c.finished_at for no key update skip locked) l
  where (select count(*) from ${last}) >= 0),
ended as (
  update millrace.items i set state = 'lost', lock_token = null, alive_until = null, finished_at = case when not o.rest then now() end, related = case when o.rest then i.related end
  from orphans o where o.finished_at is null and i.item_id = o.item_id and i.pipeline = o.pipeline returning o.rest),
-- nobody keeps the row any more: no need to look at it again
calmed as (
  update millrace.items i set resets = 0, related = null from orphans o where o.finished_at is not null and i.item_id = o.item_id and i.pipeline = o.pipeline),
old as (
  delete from millrace.items i using (
    select i.item_id, i.pipeline from millrace.items i where ${sql.lit(scan)} and i.finished_at < now() - make_interval(days => ${int(KEEP_DAYS)})
      and not (${sql.join(registry.pipelines.map(rowOfItem), or)}) and not exists (select 1 from orphans o where o.item_id = i.item_id)
    order by i.item_id for update skip locked) o
  where i.item_id = o.item_id and i.pipeline = o.pipeline returning 1),
done as (
  insert into millrace.upkeep (task, done_at) select v.task, now() from (values ('sweep', true), ('scan', ${sql.lit(scan)})) v(task, it) where v.it
  on conflict (task) do update set done_at = excluded.done_at)
${sql.join(
  tables.map(
    (name, n) =>
      sql`select ${text(name)} as "table", (select count(*) from ${sql.id(`f_${n}`)})::int as unlocked, (select count(*) from ended where not rest)::int as ended,
  (select count(*) from ended where rest)::int as "left", (select count(*) from old)::int as deleted`,
  ),
  sql`
union all
`,
)}`,
  );
}

/** Item `i` still has a related row under a lock of its own that this sweep does not clear: it must not be forgotten. */
function heldFor(registry: Registry): Sql {
  const held = registry.lockedTables.flatMap((name, n) =>
    registry.locksOn(name).length === 0
      ? []
      : [
          sql`exists (select 1 from jsonb_array_elements_text(i.related -> ${text(name)}) e(id) cross join lateral (
        select t.id from ${table(name)} t where t.id = cast(e.id as uuid) and t.lock_token is not null and t.lock_owner in (i.pipeline, i.pipeline || ':' || i.item_id) ${EACH}) r
      where not exists (select 1 from ${sql.id(`s_${n}`)} s where s.id = r.id))`,
        ],
  );
  return held.length === 0 ? sql`false` : sql`(${sql.join(held, sql` or `)})`;
}
