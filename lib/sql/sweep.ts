import { sql } from "kysely";
import type { Pipeline } from "../define/pipeline.ts";
import type { Registry } from "../define/registry.ts";
import { EACH, int, readyAny, type Sql, seconds, table, text, UNLOCK } from "./parts.ts";
import { type Statement, statement } from "./statement.ts";

/** Finished items whose row is gone are kept this long. */
const KEEP_DAYS = 7;

export interface SweepRow {
  readonly table: string;
  /** Rows whose locks were cleared. */
  readonly unlocked: number;
  /** Items in flight that were ended, of all tables. */
  readonly ended: number;
  /** Old items that were deleted, of all tables. */
  readonly deleted: number;
}

/**
 * Clears locks that nobody can take over any more, and ends items that no lock stands behind. Cheap by default: it
 * looks at the rows that millrace.items knows of; `scan` reads the tables whole, for what no item knows of.
 *
 * A row is unlocked where its lock is not live and (a) its owner is no registered pipeline, (b) its owner does not want
 * it any more (no `ready` of that owner holds, or `due_at` is null), or (c) nobody owns it but an expired token is left.
 * Never waits: rows and items that somebody else has locked are left for the next sweep.
 */
export function sweepSql(registry: Registry, scan: boolean): Statement<SweepRow> {
  const { tables } = registry;
  const last = sql.id(`s_${tables.length - 1}`);
  const names = sql.join(registry.pipelines.map((p) => text(p.name)));
  const tokenOfRow = (p: Pipeline) =>
    sql`i.pipeline = ${text(p.name)} and exists (select 1 from ${table(p.table)} t where t.id = i.item_id and t.lock_token = i.lock_token ${EACH})`;
  const rowOfItem = (p: Pipeline) =>
    sql`i.pipeline = ${text(p.name)} and exists (select 1 from ${table(p.table)} t where t.id = i.item_id)`;
  const or = sql` or `;
  const unlockedIds = sql.join(
    tables.map((_, n) => sql`select s.id from ${sql.id(`s_${n}`)} s`),
    sql` union all `,
  );
  return statement(
    scan ? "scan" : "sweep",
    "all",
    sql`with
${sql.join(
  tables.map((name, n) => unlockOf(registry, name, n, scan)),
  sql`,
`,
)},
orphans as materialized (
  select l.item_id, l.pipeline, l.lock_token from (
    select i.item_id, i.pipeline, i.lock_token from millrace.items i
    where i.finished_at is null and i.pipeline in (${names})
      and (not (${sql.join(registry.pipelines.map(tokenOfRow), or)}) or i.item_id in (${unlockedIds}))
    order by i.item_id) c cross join lateral (
    select i.item_id, i.pipeline, i.lock_token from millrace.items i
    where i.item_id = c.item_id and i.pipeline = c.pipeline and i.lock_token = c.lock_token and i.finished_at is null for no key update skip locked) l
  where (select count(*) from ${last}) >= 0),
ended as (
  update millrace.items i set state = 'lost', finished_at = now(), lock_token = null, alive_until = null
  from orphans o where i.item_id = o.item_id and i.pipeline = o.pipeline and i.lock_token = o.lock_token returning 1),
old as (
  delete from millrace.items i using (
    select i.item_id, i.pipeline from millrace.items i where ${sql.lit(scan)} and i.finished_at < now() - make_interval(days => ${int(KEEP_DAYS)})
      and not (${sql.join(registry.pipelines.map(rowOfItem), or)})
    order by i.item_id for update skip locked) o
  where i.item_id = o.item_id and i.pipeline = o.pipeline returning 1),
done as (
  insert into millrace.upkeep (task, done_at) select v.task, now() from (values ('sweep', true), ('scan', ${sql.lit(scan)})) v(task, it) where v.it
  on conflict (task) do update set done_at = excluded.done_at)
${sql.join(
  tables.map(
    (name, n) =>
      sql`select ${text(name)} as "table", (select count(*) from ${sql.id(`f_${n}`)})::int as unlocked, (select count(*) from ended)::int as ended, (select count(*) from old)::int as deleted`,
  ),
  sql`
union all
`,
)}`,
  );
}

/** CTEs of one table: s_ the rows to unlock, locked in id order; f_ the rows unlocked; i_ their items ended. */
function unlockOf(registry: Registry, name: string, n: number, scan: boolean): Sql {
  const own = registry.of(name);
  const all = sql.join(registry.pipelines.map((p) => text(p.name)));
  // a worker that is merely slow gets as long again before its lock is cleared
  const grace = seconds(Math.max(...own.map((p) => p.options.lockTimeoutSeconds)));
  const wanted = own.map((p) => sql`t.lock_owner = ${text(p.name)} and t.due_at is not null and ${readyAny(p, "t")}`);
  const stuck = sql`(t.lock_owner is not null or t.lock_token is not null) and (t.lock_expires_at is null or t.lock_expires_at < now() - ${grace})
    and not coalesce(t.lock_owner in (${all}) and (${sql.join(wanted, sql` or `)}), false)`;
  const candidates = scan
    ? sql`select t.id from ${table(name)} t where ${stuck}`
    : sql`select t.id from (select distinct i.item_id from millrace.items i where i.finished_at is null and i.pipeline in (${sql.join(own.map((p) => text(p.name)))})) i cross join lateral (select t.id from ${table(name)} t where t.id = i.item_id and ${stuck} ${EACH}) t`;
  const before = n === 0 ? sql`true` : sql`(select count(*) from ${sql.id(`s_${n - 1}`)}) >= 0`;
  return sql`${sql.id(`s_${n}`)} as materialized (
  select l.id from (${candidates} order by t.id) c cross join lateral (
    select t.id from ${table(name)} t where t.id = c.id and ${stuck} for no key update skip locked) l where ${before}),
${sql.id(`f_${n}`)} as (
  update ${table(name)} t set ${UNLOCK} from ${sql.id(`s_${n}`)} s where t.id = s.id and ${stuck} returning t.id)`;
}
