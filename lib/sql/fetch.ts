import { sql } from "kysely";
import { queueLimit, queueWaitSeconds } from "../define/options.ts";
import {
  backoff,
  common,
  freeFor,
  int,
  isDead,
  readyAny,
  rows,
  type Scope,
  seconds,
  table,
  text,
  UNLOCK,
  uuid,
} from "./parts.ts";
import { yielding } from "./related.ts";
import { type Statement, statement } from "./statement.ts";
import { armed } from "./wakeup.ts";

/** At most this many rows a fetch: their messages must be on their way long before the locks expire. */
const MOST_ROWS = 100;

export interface FetchRow {
  /** `busy`: another fetch of this pipeline runs, perhaps with an older snapshot; look again soon or a hint is lost. */
  readonly why: "rows" | "empty" | "full" | "paused" | "busy" | "unknown";
  /** JSON list of the ids that are locked under the fetch's token now. */
  readonly ids: string;
  /** JSON list of {id, attempts, dead}: their last claim ended without an answer. */
  readonly lost: string;
  /** How many of the rows had an expired lock. */
  readonly expired: number;
  /** Marks of the earlier send that were carried out. */
  readonly queued: number;
  /** Seconds until the next row is due, if a wake-up must be sent for it; null = none needed. */
  readonly wake_in: number | null;
  /** Items that were in flight before this fetch. */
  readonly in_flight: number;
  /** Seconds since the last heartbeat that found anything in flight, so that others follow; null = never. */
  readonly beat_age: number | null;
}

export interface FetchParameters {
  /** Made by the fetcher for this fetch; a repetition with the same token answers the same rows. */
  readonly token: string;
  /** Items whose messages an earlier send of this run has accepted. */
  readonly accepted: readonly { readonly id: string; readonly token: string }[];
  /** A scheduled fetch sends a wake-up that is near once more: the last one may have been lost. */
  readonly scheduled: boolean;
}

/**
 * Locks due rows under the fetch's token and notes them in millrace.items. Guarantees: one fetcher of a pipeline at a
 * time; never more than the queue limit locked or queued; a row whose last two claims died backs off instead. Carries
 * the marks of the run's earlier send, whatever it answers.
 */
export function fetchSql(scope: Scope, { token, accepted, scheduled }: FetchParameters): Statement<FetchRow> {
  const { registry, pipeline: p } = scope;
  const name = text(p.name);
  const limit = queueLimit(p.options);
  const lock = seconds(p.options.lockTimeoutSeconds);
  // rows make way for a parent that waits for all of them, but not with our own expired lock: both would wait for ever
  const yields =
    registry.yieldsOf(p.table).length === 0
      ? sql``
      : sql` and (not ${yielding(registry, p.table)} or coalesce(t.lock_owner = ${name} and t.lock_expires_at is not null, false))`;
  const eligible = sql`${readyAny(p, "t")} and t.due_at <= now() and ${freeFor(p)}${yields}`;
  const dead = isDead(p, sql`k.attempts`);
  return statement(
    "fetch",
    p.name,
    sql`with
accepted as materialized (select * from ${rows(accepted, { id: "uuid", token: "uuid" })} x),
-- a fetch that ended since our snapshot made another version of this row: we would not count its items, and undo its drain mark
p as materialized (
  select l.name, l.paused_at from (select q.name, q.xmin as version from millrace.pipelines q where q.name = ${name}) s cross join lateral (
    select q.name, q.paused_at from millrace.pipelines q where q.name = s.name and q.xmin = s.version for no key update skip locked) l),
flight as materialized (
  select i.item_id, i.state, i.lock_token, i.alive_until from millrace.items i where i.pipeline = ${name} and i.finished_at is null),
again as materialized (select f.item_id as id from flight f where f.state = 'locked' and f.lock_token = ${uuid(token)}),
room as materialized (
  select (${int(limit)} - (select count(*) from flight f where f.state in ('locked', 'queued') and f.alive_until > now()))::int as n from p
  where p.paused_at is null),
-- the literal limit is what the planner expects; the room is the real limit (null would mean none)
seen as materialized (
  select s.id from (select t.id from ${table(p.table)} t where ${eligible} order by t.due_at, t.id limit ${int(Math.min(limit, MOST_ROWS))}) s
  where not exists (select 1 from again) limit greatest(coalesce((select n from room), 0), 0)),
-- candidates come by due_at without locks; locks are taken in id order, the whole condition repeated
picked as materialized (
  select s.id, l.due_at, l.expired from (select id from seen order by id) s cross join lateral (
    select t.due_at, t.lock_token is not null as expired from ${table(p.table)} t where t.id = s.id and ${eligible} for no key update skip locked) l),
-- one pass over the items in id order, for the marks and the new rows alike
touched as materialized (
  select u.id, u.token, u.mark, u.expired, l.pipeline, coalesce(l.attempts, 0) as attempts, coalesce(l.lost, false) as lost, l.seen_due is distinct from u.due_at as moved
  from (select a.id, a.token, true as mark, null::timestamptz as due_at, false as expired from accepted a where not exists (select 1 from picked k where k.id = a.id)
        union all select k.id, null, false, k.due_at, k.expired from picked k order by 1) u
  left join lateral (
    select i.pipeline, i.attempts, i.state = 'processing' and i.finished_at is null as lost, i.seen_due from millrace.items i
    where i.item_id = u.id and i.pipeline = ${name} for no key update) l on true),
marked as (
  update millrace.items i set state = 'queued', queued_at = now(), alive_until = now() + ${seconds(queueWaitSeconds(p.options))}
  from touched k where k.mark and i.item_id = k.id and i.lock_token = k.token and i.state = 'locked' and i.pipeline = k.pipeline returning 1),
-- the worker died twice over this row, or as often as is allowed: back off as a failure does, unless somebody asked for it meanwhile
judged as materialized (
  select k.*, k.lost and (k.attempts >= 2 or ${dead}) and not k.moved as back_off, ${dead} as dead from touched k where not k.mark),
backed as (
  update ${table(p.table)} t set ${UNLOCK}, last_processed_at = now(), due_at = case when k.dead then null else now() + ${backoff(p, sql`k.attempts`)} end
  from judged k where k.back_off and t.id = k.id returning t.id, t.due_at),
-- a reset is noted: the sweep looks at related rows of the attempt that died, and at children that it reserved
ended as (
  update millrace.items i set state = case when k.dead then 'dead' else 'failed' end, finished_at = now(), lock_token = null, alive_until = null,
    prev_lock_expired = true, last_error = 'worker lost', resets = greatest(i.resets, 1)
  from judged k join backed b on b.id = k.id where i.item_id = k.id and i.pipeline = k.pipeline),
taken as (
  update ${table(p.table)} t set lock_token = ${uuid(token)}, lock_owner = ${name}, lock_expires_at = now() + ${lock}
  from judged k where not k.back_off and t.id = k.id returning t.id, k.lost, case when k.lost and k.moved then 0 else k.attempts end as attempts),
noted as (
  insert into millrace.items as i (item_id, pipeline, state, lock_token, prev_lock_expired, locked_at, alive_until, last_error, attempts)
  select n.id, ${name}, 'locked', ${uuid(token)}, n.lost, now(), now() + ${lock}, case when n.lost then 'worker lost' end, n.attempts from taken n order by n.id
  on conflict (item_id, pipeline) do update set state = 'locked', lock_token = excluded.lock_token, locked_at = excluded.locked_at,
    prev_lock_expired = i.prev_lock_expired or excluded.prev_lock_expired, last_error = coalesce(excluded.last_error, i.last_error),
    attempts = excluded.attempts, queued_at = null, claimed_at = null, finished_at = null, alive_until = excluded.alive_until, worker = null),
ahead as materialized (
  select t.due_at from ${table(p.table)} t where ${readyAny(p, "t")} and t.due_at > now() and ${common(sql`t.lock_owner is null or t.lock_owner = ${name}`)}
    and (select n from room) > 0 order by t.due_at, t.id limit 1),
${armed(p.name, sql`(select min(n.due_at) from (select due_at from ahead union all select due_at from backed) n)`, scheduled)},
-- a full queue asks whoever brings it under the lower limit for the next fetch
noticed as (
  update millrace.pipelines q set fetched_at = now(), drain = coalesce((select n from room), 0) - (select count(*) from taken) <= 0
  from p where q.name = p.name and p.paused_at is null and not exists (select 1 from again))
select case when not exists (select 1 from p) then case when exists (select 1 from millrace.pipelines q where q.name = ${name}) then 'busy' else 'unknown' end
    when (select paused_at from p) is not null then 'paused'
    when exists (select 1 from taken) or exists (select 1 from again) then 'rows'
    when (select n from room) <= 0 then 'full' else 'empty' end as why,
  coalesce((select json_agg(r.id) from (select id from taken union all select id from again) r), '[]')::text as ids,
  coalesce((select json_agg(json_build_object('id', k.id, 'attempts', k.attempts, 'dead', k.back_off and k.dead)) from judged k where k.lost), '[]')::text as lost,
  (select count(*) from picked where expired)::int as expired, (select count(*) from marked)::int as queued,
  (select wake_in from armed) as wake_in, (select count(*) from flight)::int as in_flight,
  (select extract(epoch from now() - u.done_at)::float8 from millrace.upkeep u where u.task = 'heartbeat') as beat_age`,
  );
}
