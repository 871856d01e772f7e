import { sql } from "kysely";
import { queueLower } from "../define/options.ts";
import {
  backoff,
  drained,
  isDead,
  lines,
  pipelineOf,
  readyAny,
  rememberToken,
  resetDelay,
  rows,
  type Scope,
  type Sql,
  table,
  text,
} from "./parts.ts";
import { type Statement, statement } from "./statement.ts";
import { lockAll, touchedTables } from "./touched.ts";
import { nameList, yielders } from "./waiting.ts";
import { armed } from "./wakeup.ts";

export interface EndKey {
  readonly id: string;
  readonly token: string;
  /** `due_at` at the claim, as text. */
  readonly seen: string | null;
}

export interface EndRow {
  readonly id: string;
  readonly token: string;
  readonly result: "ended" | "already" | "stale";
  readonly attempts: number | null;
  readonly state: "retried" | "failed" | "dead" | "released" | null;
  /** Seconds until the row is due again; null = never. */
  readonly due_in: number | null;
  /** The pipeline for which the row is ready and due right now: hint it. */
  readonly hint: string | null;
  /** JSON list of pipelines with other rows that this freed, and that are due: hint them. */
  readonly hints: string;
  readonly wake_in: number | null;
  readonly drained: boolean;
}

/**
 * Gives rows back for another try, not counting the attempt. At contention the owner stays on the row, so that no other
 * pipeline takes it before we retry; a `retry` by user code (`keep` false) releases it, and so does a row that has left
 * our states meanwhile: we would not come for it.
 */
export function resetSql(
  scope: Scope,
  keys: readonly (EndKey & { reason: string; keep: boolean })[],
): Statement<EndRow> {
  return endSql(scope, "reset", keys, {
    owner: sql`case when m.keep then t.lock_owner end`,
    due: sql`now() + ${resetDelay(sql`m.resets`)}`,
    dead: sql`false`,
    item: sql`state = 'retried', attempts = greatest(i.attempts - 1, 0), resets = i.resets + 1, last_error = m.reason`,
  });
}

/**
 * Ends a failed attempt: back-off by attempts, `dead` after `maxAttempts`. A row that was requested meanwhile (its
 * `due_at` moved) keeps the earlier time and is not dead: its attempts start again.
 */
export function failSql(scope: Scope, keys: readonly (EndKey & { reason: string })[]): Statement<EndRow> {
  const { pipeline: p } = scope;
  const dead = isDead(p, sql`m.attempts`);
  return endSql(
    scope,
    "fail",
    keys.map((k) => ({ ...k, keep: false })),
    {
      owner: sql`null`,
      due: sql`case when ${dead} then null else now() + ${backoff(p, sql`m.attempts`)} end`,
      dead,
      item: sql`state = case when m.dead and not m.moved then 'dead' else 'failed' end, attempts = case when m.moved then 0 else i.attempts end, resets = 0, last_error = m.reason`,
    },
  );
}

/** Ends an item whose row is in no state any more; not an attempt, `due_at` untouched. */
export function releaseSql(scope: Scope, keys: readonly EndKey[]): Statement<EndRow> {
  return endSql(
    scope,
    "release",
    keys.map((k) => ({ ...k, reason: null, keep: false })),
    {
      owner: sql`null`,
      due: sql`t.due_at`,
      dead: sql`false`,
      item: sql`state = 'released', attempts = greatest(i.attempts - 1, 0), resets = 0`,
    },
  );
}

interface Ending {
  readonly owner: Sql;
  readonly due: Sql;
  readonly dead: Sql;
  readonly item: Sql;
}

/**
 * Guard: id and token, compared under the row's lock and again in the write. Related rows are unlocked by the same token.
 * A repetition hears `already`, and the hint again.
 */
function endSql(
  scope: Scope,
  step: "reset" | "fail" | "release",
  keys: readonly (EndKey & { readonly reason: string | null; readonly keep: boolean })[],
  { owner, due, dead, item }: Ending,
): Statement<EndRow> {
  const { pipeline: p, siblings } = scope;
  const touched = touchedTables(scope, [], [], false);
  const { locks, last } = lockAll(
    scope,
    touched,
    (after) => sql`main as materialized (
  select w.id, w.token, w.seen, w.reason, w.keep and l.ready as keep, l.moved from (select * from w order by id) w cross join lateral (
    select t.due_at is distinct from w.seen as moved, ${readyAny(p, "t")} as ready from ${table(p.table)} t where t.id = w.id and t.lock_token = w.token for no key update) l
  where (select count(*) from ${after}) >= 0)`,
  );
  // rows that a try without an answer has locked since our snapshot stay on the list, for the sweep or the next pass
  const grown =
    touched.length === 0
      ? sql`false`
      : sql`d.related is distinct from (select i.related from millrace.items i where i.item_id = m.id and i.pipeline = ${text(p.name)})`;
  const already = sql`w.token = any (d.finished_tokens)`;
  return statement(
    step,
    p.name,
    sql`with
w as materialized (select * from ${rows(keys, { id: "uuid", token: "uuid", seen: "timestamptz", reason: "text", keep: "boolean" })} x),
${lines(locks)},
done as materialized (
  select w.id, w.token, l.pipeline, l.finished_tokens, l.attempts, l.resets, l.related from (select * from w order by id) w cross join lateral (
    select i.pipeline, i.finished_tokens, i.attempts, i.resets, i.related from millrace.items i where i.item_id = w.id and i.pipeline = ${text(p.name)} for no key update) l
  where (select count(*) from ${last}) >= 0),
mine as materialized (
  select m.*, d.pipeline, coalesce(d.attempts, 1) as attempts, coalesce(d.resets, 0) as resets, ${grown} as grown
  from main m left join done d on d.id = m.id and d.token = m.token where (select count(*) from done) >= 0),
ends as materialized (select m.*, ${dead} as dead from mine m),
upd as (
  update ${table(p.table)} t set ${UNLOCK_BUT_OWNER}, lock_owner = ${owner}, last_processed_at = ${step === "release" ? sql`t.last_processed_at` : sql`now()`},
    due_at = case when m.moved then least(t.due_at, ${due}) else ${due} end
  from ends m where t.id = m.id and t.lock_token = m.token returning t.id, t.due_at, t.lock_owner, m.token, ${pipelineOf(siblings)} as ready_for),
fin as (
  update millrace.items i set finished_tokens = ${rememberToken(sql`m.token`)}, finished_at = now(), lock_token = null, alive_until = null,
    prev_lock_expired = false, related = case when m.grown then i.related end, ${item}
  from ends m where i.item_id = m.id and i.pipeline = m.pipeline returning i.item_id, i.attempts, i.state, m.token),
${lines([...touched.flatMap((t) => t.writes), armed(p.name, sql`(select min(u.due_at) from upd u where u.due_at > now() and u.ready_for = ${text(p.name)})`)])}
select w.id, w.token, case when u.id is not null then 'ended' when ${already} then 'already' else 'stale' end as result,
  f.attempts, f.state, extract(epoch from u.due_at - now())::float8 as due_in,
  case when u.id is not null then case when u.due_at <= now() then u.ready_for end
    when ${already} then (select ${pipelineOf(siblings)} from ${table(p.table)} t where t.id = w.id and t.due_at <= now() and t.lock_token is null) end as hint,
  case when u.id is null and ${already} then ${nameList([...touched.flatMap((t) => t.again), ...yielders(scope, sql`true`)])}
    else ${nameList([...touched.flatMap((t) => t.hints), ...yielders(scope, sql`u.id is not null and u.lock_owner is null`)])} end as hints,
  (select wake_in from armed) as wake_in,
  ${drained(p, queueLower(p.options), sql`0`)} as drained
from w left join upd u on u.id = w.id and u.token = w.token left join done d on d.id = w.id and d.token = w.token
  left join fin f on f.item_id = w.id and f.token = w.token`,
  );
}

const UNLOCK_BUT_OWNER = sql`lock_token = null, lock_expires_at = null`;
