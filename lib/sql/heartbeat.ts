import { sql } from "kysely";
import type { Pipeline } from "../define/pipeline.ts";
import { type Registry, relatedTables } from "../define/registry.ts";
import { EACH, int, lines, readyAny, type Sql, seconds, table, text } from "./parts.ts";
import { type Statement, statement } from "./statement.ts";

/** An item that waits this much longer than one queued after it has been overtaken: its message may be lost. */
const OVERTAKEN_SECONDS = 5;
/** An item that waits this long while not all workers are busy: its message may be lost. */
const FORGOTTEN_SECONDS = 30;
/** A message is sent again at most this often. */
const RESEND_SECONDS = 30;

export interface HeartbeatRow {
  readonly pipeline: string;
  /** Items in flight. */
  readonly in_flight: number;
  /** Queued or processing items that are alive. */
  readonly watched: number;
  /** Rows whose locks were extended; related rows go along uncounted. */
  readonly extended: number;
  /** Alive items whose row is gone or carries another token or none. */
  readonly lost: number;
  /** Alive items whose lock had expired already. */
  readonly late: number;
  /**
   * JSON list of whole seconds, 0 = now: when the locks end of due rows that nobody keeps alive, as far as that is before
   * the next tick. Then hint.
   */
  readonly takeable: string;
  /** JSON list of {id, token}: messages to send again. */
  readonly resend: string;
  /** Seconds since the last sweep, and since the last full scan; null = never. */
  readonly sweep_age: number | null;
  readonly scan_age: number | null;
}

/**
 * Extends the locks of items in flight that are alive and of their related rows, for all pipelines in one call, and names
 * the messages to send again. Never waits for a row that somebody else has locked. Guards: the item's token is the row's
 * and its related rows', and `alive_until` lies ahead: a crashed worker's lock is not kept alive.
 */
export function heartbeatSql(registry: Registry): Statement<HeartbeatRow> {
  const pipelines = [...registry.pipelines].sort((a, b) => compare(a.table, b.table) || compare(a.name, b.name));
  const tables = registry.lockedTables;
  const lastLock = sql.id(`l_${tables.length - 1}`);
  return statement(
    "heartbeat",
    "all",
    sql`with
${lines([
  ...pipelines.map((p, n) => flightOf(p, n)),
  ...tables.flatMap((name, n) => extendOf(pipelines, name, n)),
  ...pipelines.map((p, n) => forgottenOf(p, n)),
])},
again as materialized (
  select l.item_id, l.pipeline, l.lock_token from (select * from (${sql.join(
    pipelines.map((_, n) => sql`select * from ${sql.id(`r_${n}`)}`),
    sql` union all `,
  )}) u order by u.id) r
  cross join lateral (
    select i.item_id, i.pipeline, i.lock_token from millrace.items i where i.item_id = r.id and i.pipeline = r.pipeline and i.lock_token = r.token and i.state = 'queued' for no key update skip locked) l
  where (select count(*) from ${lastLock}) >= 0),
resent as (
  update millrace.items i set queued_at = now() from again a where i.item_id = a.item_id and i.pipeline = a.pipeline and i.lock_token = a.lock_token
  returning i.item_id, i.pipeline, i.lock_token),
-- with nothing in flight the heartbeater ends: a fetch must not take it for alive
beat as (
  insert into millrace.upkeep (task, done_at) values ('heartbeat', case when ${sql.join(
    pipelines.map((_, n) => sql`exists (select 1 from ${sql.id(`h_${n}`)})`),
    sql` or `,
  )} then now() else timestamptz 'epoch' end) on conflict (task) do update set done_at = excluded.done_at)
${sql.join(
  pipelines.map((p, n) => answerOf(registry, p, n)),
  sql`
union all
`,
)}`,
  );
}

/** What is in flight of one pipeline, as CTE h_, without locks. `near`: locks that end before this are extended, at most to `upto`. */
function flightOf(p: Pipeline, n: number): Sql {
  const { lockTimeoutSeconds, heartbeatTriggerSeconds, heartbeatTickSeconds } = p.options;
  return sql`${sql.id(`h_${n}`)} as materialized (
  select i.item_id as id, i.lock_token as token, i.state, i.queued_at, i.claimed_at, i.related, i.state in ('queued', 'processing') and i.alive_until > now() as alive,
    coalesce(t.lock_token = i.lock_token, false) as ours, t.lock_expires_at < now() as expired, t.lock_expires_at,
    now() + ${seconds(heartbeatTriggerSeconds)} as near, least(now() + ${seconds(lockTimeoutSeconds)}, i.alive_until + ${seconds(heartbeatTickSeconds)}) as upto
  from millrace.items i left join lateral (select t.lock_token, t.lock_expires_at from ${table(p.table)} t where t.id = i.item_id ${EACH}) t on true
  where i.pipeline = ${text(p.name)} and i.finished_at is null)`;
}

/** CTEs of one table: l_ the rows locked, in id order, main and related rows of all pipelines alike; k_ the rows extended. */
function extendOf(pipelines: readonly Pipeline[], name: string, n: number): readonly Sql[] {
  const [l, k] = [sql.id(`l_${n}`), sql.id(`k_${n}`)];
  const before = n === 0 ? sql`true` : sql`(select count(*) from ${sql.id(`l_${n - 1}`)}) >= 0`;
  const parts = pipelines.flatMap((p, m) => {
    const h = sql.id(`h_${m}`);
    if (p.table === name)
      return [
        sql`select h.id, h.token, h.near, h.upto, ${text(p.name)}::text as pipeline from ${h} h where alive and ours and lock_expires_at < near`,
      ];
    if (!relatedTables(p).includes(name)) return [];
    return [
      sql`select cast(e.id as uuid) as id, h.token, h.near, h.upto, null::text as pipeline from ${h} h cross join lateral jsonb_array_elements_text(h.related -> ${text(name)}) e(id) where h.alive and h.ours and h.state = 'processing'`,
    ];
  });
  return [
    sql`${l} as materialized (
  select h.* from (select * from (${sql.join(parts, sql` union all `)}) u order by id) h cross join lateral (
    select 1 from ${table(name)} t where t.id = h.id and t.lock_token = h.token and t.lock_expires_at < h.near for no key update skip locked) x
  where ${before})`,
    sql`${k} as (
  update ${table(name)} t set lock_expires_at = greatest(t.lock_expires_at, x.upto)
  from ${l} x where t.id = x.id and t.lock_token = x.token returning x.pipeline)`,
  ];
}

/** CTE r_ of one pipeline: the messages to send again. */
function forgottenOf(p: Pipeline, n: number): Sql {
  const h = sql.id(`h_${n}`);
  return sql`${sql.id(`r_${n}`)} as materialized (
  select h.id, ${text(p.name)}::text as pipeline, h.token from ${h} h where h.alive and h.ours and h.state = 'queued' and (
    h.queued_at < now() - make_interval(secs => ${int(FORGOTTEN_SECONDS)}) and (
      select count(*) from ${h} o where o.state = 'processing' and o.alive) < ${int(p.options.workers)}
    or h.queued_at < now() - make_interval(secs => ${int(RESEND_SECONDS)}) and exists (
      select 1 from ${h} o where o.state = 'processing' and o.queued_at > h.queued_at + make_interval(secs => ${int(OVERTAKEN_SECONDS)}))))`;
}

function answerOf(registry: Registry, p: Pipeline, n: number): Sql {
  const h = sql.id(`h_${n}`);
  const age = (task: string) =>
    sql`(select extract(epoch from now() - u.done_at)::float8 from millrace.upkeep u where u.task = ${text(task)})`;
  return sql`select ${text(p.name)} as pipeline, (select count(*) from ${h})::int as in_flight, (select count(*) from ${h} where alive)::int as watched,
  (select count(*) from ${sql.id(`k_${registry.lockedTables.indexOf(p.table)}`)} k where k.pipeline = ${text(p.name)})::int as extended, (select count(*) from ${h} where alive and not ours)::int as lost,
  (select count(*) from ${h} where alive and ours and expired)::int as late,
  coalesce((select json_agg(distinct greatest(0, ceil(extract(epoch from t.lock_expires_at - now())))::int) from ${h} f cross join lateral (
    select t.lock_expires_at from ${table(p.table)} t where t.id = f.id and t.lock_expires_at < now() + ${seconds(shortestTick(registry))} and t.due_at <= now()
      and t.lock_owner = ${text(p.name)} and ${readyAny(p, "t")} ${EACH}) t where not (f.alive and f.ours)), '[]')::text as takeable,
  coalesce((select json_agg(json_build_object('id', s.item_id, 'token', s.lock_token)) from resent s where s.pipeline = ${text(p.name)}), '[]')::text as resend,
  ${age("sweep")} as sweep_age, ${age("scan")} as scan_age`;
}

/** The heartbeater looks this often, in seconds: the shortest tick of all pipelines. */
export const shortestTick = (registry: Registry): number =>
  Math.min(...registry.pipelines.map((p) => p.options.heartbeatTickSeconds));

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);
