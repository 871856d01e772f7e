import { sql } from "kysely";
import { queueLower } from "../define/options.ts";
import type { Pipeline } from "../define/pipeline.ts";
import { DELETING, TOLD } from "./deleting.ts";
import { type InsertGroup, insertOf, patchColumns, withNows } from "./insert.ts";
import {
  common,
  drained,
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
  UNLOCK,
} from "./parts.ts";
import { type Statement, statement } from "./statement.ts";
import { lockAll, type RelatedGroup, type RequestGroup, type Touched, touchedTables } from "./touched.ts";
import { nameList, yielders } from "./waiting.ts";
import { armed } from "./wakeup.ts";

/** One accepted answer, as it travels: values as JSON, instants of the statement by column name. */
export interface ApplyItem {
  readonly id: string;
  readonly token: string;
  /** Column → JSON value. */
  readonly set: Readonly<Record<string, unknown>>;
  /** Columns that get the statement's instant. */
  readonly nows: readonly string[];
  readonly delete: boolean;
  /** Seconds until the next pass; null = never. */
  readonly due: number | null;
  /** True when the answer names no `due`: then a change of a column that a `ready` looks at makes the row due at once. */
  readonly due_by_default: boolean;
  /** `due_at` at the claim, as text. */
  readonly seen: string | null;
  /** Names of the pass's locks, as `state.lock`: no row that a `children` lock wants may be without our token. */
  readonly locks?: readonly string[];
}

/** What the answers of a batch write beside their main rows. */
export interface Beside {
  readonly inserts?: readonly InsertGroup[];
  readonly related?: readonly RelatedGroup[];
  /** Only where the batch has one answer: rows that it asks for may be main rows of others. */
  readonly requests?: readonly RequestGroup[];
}

export interface ApplyRow {
  readonly id: string;
  readonly token: string;
  /** `contention`: the row was ours, but a related one was not, or a new child had come: nothing was written, and the row given back. */
  readonly result: "applied" | "already" | "contention" | "stale";
  /**
   * The pipeline for which the row is ready, if it is due right now, or if it is another one than before: that one knows
   * nothing of the row yet, and sends a wake-up when it looks. Hint it.
   */
  readonly hint: string | null;
  /** JSON list of pipelines with other rows that this made ready or freed, and that are due: hint them. */
  readonly hints: string;
  /** Seconds until the earliest of the batch is due again, if a wake-up must be sent for it. */
  readonly wake_in: number | null;
  readonly drained: boolean;
}

/**
 * Writes the answers of a batch: each whole, or not at all. Guard: id and token, compared under the row's lock and again
 * in the write; the same for every related row; and no child that a pass wants may be without its token. An answer whose
 * related rows are lost gives its row back with its owner kept, one whose own row is lost only frees related rows that
 * still carry its token. A `due_at` that moved since the claim is a request: the earlier of the two stands. A repetition
 * hears `already` from the newest items row, read under its lock after the main row's.
 */
export function applySql(
  scope: Scope,
  items: readonly ApplyItem[],
  { inserts = [], related = [], requests = [] }: Beside = {},
): Statement<ApplyRow> {
  const { pipeline: p, siblings, readyNames } = scope;
  const touched = touchedTables(scope, related, requests, true);
  const columns = [...new Set(items.flatMap((i) => [...Object.keys(i.set), ...i.nows]))].sort();
  const watched = columns.filter((c) => readyNames.includes(c));
  const patch = sql`jsonb_populate_record(t, ok.set) p`;
  const set = columns.length === 0 ? sql`` : sql`${patchColumns(columns, patch)},`;
  const list = (alias: string) => sql`(${sql.join(watched.map((c) => sql.ref(`${alias}.${c}`)))})`;
  const moved =
    watched.length === 0
      ? sql`false`
      : sql`ok.due_by_default and (select row${list("p")} is distinct from row${list("t")} from ${patch})`;
  const due = sql`case when ${moved} then now() else now() + make_interval(secs => ok.due) end`;
  // a row that is deleted is locked as the delete will: an upgrade could deadlock with a transaction that inserts a child
  const deletes = items.some((i) => i.delete);
  const lock = deletes ? sql`for update` : sql`for no key update`;
  const { locks, last } = lockAll(
    scope,
    touched,
    (after) => sql`main as materialized (
  select w.* from (select * from w order by id) w cross join lateral (
    select 1 from ${table(p.table)} t where t.id = w.id and t.lock_token = w.token ${lock}) l
  where (select count(*) from ${after}) >= 0)`,
  );
  const kept = keptRelated(p, items, touched);
  const besides = touched.length > 0;
  const gone = [
    ...(deletes || related.some((g) => g.rows.some((r) => r.delete)) ? [DELETING] : []),
    ...(deletes
      ? [
          sql`gone as (delete from ${table(p.table)} t using ok where t.id = ok.id and t.lock_token = ok.token and ok.delete and ${TOLD})`,
        ]
      : []),
  ];
  const ahead = sql`select u.due_at from upd u where u.ready_for = ${text(p.name)} and u.due_at > now()${besides ? sql` union all select b.due_at from back b` : sql``}`;
  const toHint = sql`(u.due_at <= now() or u.ready_for <> ${text(p.name)} and u.due_at is not null)`;
  const already = sql`w.token = any (d.finished_tokens)`;
  return statement(
    "apply",
    p.name,
    sql`with
w as materialized (
  select x.id, x.token, x.delete, x.due, x.due_by_default, x.seen, x.locks, ${withNows(sql`x.set`, sql`x.nows`)} as set
  from ${rows(items, { id: "uuid", token: "uuid", set: "jsonb", nows: "jsonb", delete: "boolean", due: "float8", due_by_default: "boolean", seen: "timestamptz", locks: "jsonb" })} x),
${lines(locks)},
done as materialized (
  select w.id, w.token, l.pipeline, l.finished_tokens, l.resets from (select * from w order by id) w cross join lateral (
    select i.pipeline, i.finished_tokens, i.resets from millrace.items i where i.item_id = w.id and i.pipeline = ${text(p.name)} for no key update) l
  where (select count(*) from ${last}) >= 0),
ok as materialized (select m.* from main m where (select count(*) from done) >= 0 and ${kept}),
upd as (
  update ${table(p.table)} t set ${set} last_processed_at = now(), ${UNLOCK},
    due_at = case when t.due_at is not distinct from ok.seen then ${due} else least(t.due_at, ${due}) end
  from ok where t.id = ok.id and t.lock_token = ok.token and not ok.delete
  returning t.id, t.due_at, ${pipelineOf(siblings)} as ready_for),
${lines([...gone, ...touched.flatMap((t) => t.writes), ...inserts.map((group, n) => sql`${sql.id(`ins_${n}`)} as (${insertOf(group)})`), sql``])}
fin as (
  update millrace.items i set state = 'applied', finished_tokens = ${rememberToken(sql`ok.token`)}, applied_token = ok.token, finished_at = now(),
    lock_token = null, alive_until = null, attempts = 0, resets = 0, last_error = null, prev_lock_expired = false, related = null
  from ok join done d on d.id = ok.id and d.token = ok.token where i.item_id = d.id and i.pipeline = d.pipeline),
${lines([...(besides ? giveBack(scope) : []), armed(p.name, sql`(select min(n.due_at) from (${ahead}) n)`)])}
select w.id, w.token, case when ok.id is not null then 'applied' when ${already} then 'already'${besides ? sql` when b.id is not null then 'contention'` : sql``} else 'stale' end as result,
  case when ok.id is not null then (select u.ready_for from upd u where u.id = ok.id and ${toHint})
    when ${already} then (select u.ready_for from (select t.due_at, ${pipelineOf(siblings)} as ready_for from ${table(p.table)} t where t.id = w.id and t.lock_token is null) u where ${toHint})
    ${besides ? sql`when b.due_at <= now() then b.ready_for` : sql``} end as hint,
  case when ok.id is null and ${already} then ${nameList([...touched.flatMap((t) => t.again), ...yielders(scope, sql`true`)])}
    else ${nameList([...touched.flatMap((t) => t.hints), ...yielders(scope, sql`ok.id is not null`)])} end as hints,
  (select wake_in from armed) as wake_in, ${drained(p, queueLower(p.options), sql`0`)} as drained
from w left join ok on ok.id = w.id and ok.token = w.token left join done d on d.id = w.id and d.token = w.token
  ${besides ? sql`left join back b on b.id = w.id and b.token = w.token` : sql``}`,
  );
}

/** Main row `m` kept everything that its pass had locked, and no row has come that it would have wanted. */
function keptRelated({ states }: Pipeline, items: readonly ApplyItem[], touched: readonly Touched[]): Sql {
  const lost = touched.map(
    ({ entries, locked }) =>
      sql`not exists (select 1 from ${entries} r where r.given and r.item = m.id and r.token = m.token and not exists (select 1 from ${locked} l where l.id = r.id and l.item = r.item and l.held))`,
  );
  const wanted = new Set(items.flatMap((i) => i.locks ?? []));
  const come = states.flatMap((state) =>
    Object.entries(state.locks).flatMap(([name, lock]) => {
      const key = `${state.name}.${name}`;
      if (lock.kind !== "children" || !wanted.has(key)) return [];
      const where = lock.where === null ? sql`true` : common(sql.raw(lock.where.aliased));
      return [
        sql`(not jsonb_exists(coalesce(m.locks, '[]'), ${text(key)}) or not exists (select 1 from ${table(lock.table)} t where ${sql.ref(`t.${lock.column}`)} = m.id and ${where} and t.lock_token is distinct from m.token))`,
      ];
    }),
  );
  return sql.join([sql`true`, ...lost, ...come], sql` and `);
}

/**
 * CTEs `back` and `retried`: rows that were ours, but whose related rows were not, are given back as a reset does. The
 * token is not remembered as finished: a repetition would hear `already`, and take for written what was not.
 */
function giveBack({ pipeline: p, siblings }: Scope): readonly Sql[] {
  const due = sql`now() + ${resetDelay(sql`coalesce(d.resets, 0)`)}`;
  return [
    sql`back as (
  update ${table(p.table)} t set lock_token = null, lock_expires_at = null, lock_owner = case when ${readyAny(p, "t")} then t.lock_owner end, last_processed_at = now(),
    due_at = case when t.due_at is not distinct from m.seen then ${due} else least(t.due_at, ${due}) end
  from main m left join done d on d.id = m.id and d.token = m.token
  where not exists (select 1 from ok where ok.id = m.id) and t.id = m.id and t.lock_token = m.token returning t.id, m.token, t.due_at, ${pipelineOf(siblings)} as ready_for)`,
    sql`retried as (
  update millrace.items i set state = 'retried', finished_at = now(), lock_token = null,
    alive_until = null, prev_lock_expired = false, attempts = greatest(i.attempts - 1, 0), resets = i.resets + 1, last_error = 'contention', related = null
  from back b join done d on d.id = b.id and d.token = b.token where i.item_id = d.id and i.pipeline = d.pipeline)`,
  ];
}
