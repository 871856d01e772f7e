import { sql } from "kysely";
import { queueLower } from "../define/options.ts";
import type { Pipeline } from "../define/pipeline.ts";
import { common, drained, rows, seconds, stateOf, table, text } from "./parts.ts";
import { type Statement, statement } from "./statement.ts";

export interface ClaimKey {
  readonly id: string;
  /** The fetch's token, from the message. */
  readonly token: string;
  /** The worker's own new token for this item. */
  readonly next: string;
}

/** The engine's columns of an answer; the row's own columns stand beside them. */
export interface ClaimRow {
  readonly millrace_id: string;
  readonly millrace_token: string;
  /** `alone`: its last claim died; claim it by itself, right before it runs. */
  readonly millrace_result: "ours" | "alone" | "stale";
  /** The state that the row is in now; null = it left every state. */
  readonly millrace_state: string | null;
  /** `due_at` as text with microseconds, for apply. */
  readonly millrace_seen_due: string | null;
  readonly millrace_attempts: number | null;
  readonly millrace_applied_token: string | null;
  /** Its last claim ended without an answer. */
  readonly millrace_prev_lock_expired: boolean | null;
  readonly millrace_now: Date;
  /** The queue is below its lower limit and the last fetch found it full: hint. */
  readonly millrace_drained: boolean;
}

export interface ClaimMode {
  /** The only item, or a suspect in its turn: a suspect is claimed too. */
  readonly alone: boolean;
  /**
   * Pass over rows that another transaction has locked: they answer `stale`, and must be claimed again by a statement
   * that waits before that is believed. @default false
   */
  readonly skipLocked?: boolean;
}

/**
 * Takes items over from their messages: each gets a token of its own, so a second delivery is stale, also inside one
 * batch. Guard: the message's token (or, repeated, the worker's own). Counts the attempt, once.
 */
export function claimSql(
  p: Pipeline,
  keys: readonly ClaimKey[],
  worker: string,
  { alone, skipLocked = false }: ClaimMode,
): Statement<ClaimRow & Readonly<Record<string, unknown>>> {
  const { lockTimeoutSeconds, leaseSeconds } = p.options;
  const lock = skipLocked ? sql`for no key update skip locked` : sql`for no key update`;
  return statement(
    "claim",
    p.name,
    sql`with
w as materialized (select * from ${rows(keys, { id: "uuid", token: "uuid", next: "uuid" })} x),
held as materialized (
  select w.id, w.token, w.next, l.repeated from (select * from w order by id, next) w cross join lateral (
    select t.lock_token = w.next as repeated from ${table(p.table)} t
    where t.id = w.id and (t.lock_token = w.token or t.lock_token = w.next) ${lock}) l),
one as materialized (select distinct on (h.id) h.* from held h order by h.id, h.repeated desc, h.next),
kept as materialized (
  select o.*, l.pipeline, l.suspect from (select * from one order by id) o cross join lateral (
    select i.pipeline, i.prev_lock_expired as suspect from millrace.items i
    where i.item_id = o.id and i.pipeline = ${text(p.name)} and (i.lock_token = o.token or i.lock_token = o.next) and ${common(sql`i.finished_at is null`)}
    ${lock}) l),
mine as materialized (select k.* from kept k where k.repeated or not k.suspect or ${sql.lit(alone)}),
row as (
  update ${table(p.table)} t set lock_token = m.next, lock_owner = ${text(p.name)}, lock_expires_at = now() + ${seconds(lockTimeoutSeconds)}
  from mine m where t.id = m.id and (t.lock_token = m.token or t.lock_token = m.next)
  returning t.*, ${stateOf(p)} as millrace_state, t.due_at::text as millrace_seen_due),
-- one list: with two the planner may look each item up once for every row
begun as materialized (select m.*, r.due_at from mine m join row r on r.id = m.id),
item as (
  update millrace.items i set state = 'processing', lock_token = m.next, claimed_at = now(), alive_until = now() + ${seconds(leaseSeconds)},
    attempts = i.attempts + case when m.repeated then 0 else 1 end, seen_due = m.due_at, worker = cast(cast(${worker} as text) as text)
  from begun m where i.item_id = m.id and i.pipeline = m.pipeline
  returning i.item_id, i.attempts, i.applied_token)
select w.id as millrace_id, w.next as millrace_token,
  case when row.id is not null then 'ours' when k.id is not null and m.id is null then 'alone' else 'stale' end as millrace_result,
  item.attempts as millrace_attempts, item.applied_token as millrace_applied_token, k.suspect as millrace_prev_lock_expired, now() as millrace_now,
  ${drained(p, queueLower(p.options), sql`(select count(*) from item)`)} as millrace_drained, row.*
from w left join kept k on k.id = w.id and k.next = w.next left join mine m on m.id = w.id and m.next = w.next
  left join row on row.id = w.id and row.lock_token = w.next left join item on item.item_id = row.id`,
  );
}
