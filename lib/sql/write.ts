import { sql } from "kysely";
import type { Registry } from "../define/registry.ts";
import { DELETING, TOLD } from "./deleting.ts";
import { endedState, endTaken, lockForWriter, startAgain } from "./free.ts";
import { type InsertGroup, insertOf, patchColumns, withNows } from "./insert.ts";
import { EACH, lines, rememberToken, rows, type Sql, table, text } from "./parts.ts";
import { stillReserved } from "./related.ts";
import { dueNow } from "./request.ts";
import { type Statement, statement } from "./statement.ts";

/** A write to one row from outside of pipelines, as it travels. */
export interface RowWrite {
  readonly id: string;
  /** Made by the caller, once for all repetitions. */
  readonly token: string;
  readonly set: Readonly<Record<string, unknown>>;
  readonly nows: readonly string[];
}

/** The engine's columns of an answer; the row's own stand beside them. */
export interface WriteRow {
  readonly millrace_result: "done" | "held" | "missing";
}

/** The same for a row of several. `ours`: not written, because another one of them could not be. */
export interface HeldWriteRow {
  readonly millrace_id: string;
  readonly millrace_result: WriteRow["millrace_result"] | "ours";
}

/**
 * Writes a row that is free, makes it due at once, and lets attempts of an ended item start again. A lock that is taken
 * away (expired or dead) is cleared whole, and its item ended, so that its holder's apply is stale. With `held` the row
 * is written whoever holds it, and its lock stays. A repetition finds its token among the finished ones of the item of
 * the table's first pipeline and writes nothing; the upsert asks the newest version, whatever the statement's snapshot.
 */
export function writeSql(
  registry: Registry,
  name: string,
  write: RowWrite,
  { inserts = [], held = false }: { readonly inserts?: readonly InsertGroup[]; readonly held?: boolean } = {},
): Statement<WriteRow & Readonly<Record<string, unknown>>> {
  const [first, ...others] = registry
    .of(name)
    .map((p) => p.name)
    .sort();
  const columns = [...Object.keys(write.set), ...write.nows].sort();
  const set = columns.length === 0 ? sql`` : sql`${patchColumns(columns, sql`jsonb_populate_record(t, ok.set) p`)}, `;
  const unlock = held
    ? sql``
    : sql`lock_token = null, lock_expires_at = null, lock_owner = case when ok.held_token is null then t.lock_owner end, `;
  const taken = (of: Sql) => (held ? sql`null::uuid` : of);
  const ofLocked = taken(sql`(select l.held_token from locked l where l.id = i.item_id)`);
  return statement(
    held ? "request" : "update",
    name,
    sql`with
w as materialized (
  select x.id, x.token, ${withNows(sql`x.set`, sql`x.nows`)} as set
  from ${rows([write], { id: "uuid", token: "uuid", set: "jsonb", nows: "jsonb" })} x),
${lines(lockForWriter(registry, name))},
note as (
  insert into millrace.items as i (item_id, pipeline, state, finished_tokens, finished_at)
  select l.id, ${text(first!)}, 'released', array[l.token], now() from locked l where ${held ? sql`true` : sql`l.free`}
  on conflict (item_id, pipeline) do update set finished_tokens = ${rememberToken(sql`excluded.finished_tokens[1]`)},
    state = ${endedState(ofLocked)}, ${endTaken(ofLocked)}, attempts = ${startAgain("attempts", ofLocked)}, resets = ${startAgain("resets", ofLocked)}
  where not (excluded.finished_tokens[1] = any (i.finished_tokens)) returning i.item_id),
ok as materialized (select l.* from locked l join note n on n.item_id = l.id),
mine as materialized (
  select l.item_id, l.pipeline, ok.held_token from ok cross join lateral (
    select i.item_id, i.pipeline from millrace.items i
    where i.item_id = ok.id and i.pipeline in (${sql.join([sql`null`, ...others.map(text)])}) order by i.pipeline for no key update) l),
ended as (
  update millrace.items i set state = ${endedState(taken(sql`m.held_token`))}, ${endTaken(taken(sql`m.held_token`))},
    attempts = ${startAgain("attempts", taken(sql`m.held_token`))}, resets = ${startAgain("resets", taken(sql`m.held_token`))}
  from mine m where i.item_id = m.item_id and i.pipeline = m.pipeline),
-- by id alone: the row is locked, and the snapshot's version, of which the update asks first, may carry an older token
upd as (
  update ${table(name)} t set ${set}${unlock}due_at = ${dueNow}
  from ok where t.id = ok.id returning t.*),
${lines([
  ...inserts.map((group, n) => sql`${sql.id(`ins_${n}`)} as (${insertOf(group)})`),
  sql`known as materialized (
  select 1 from w join millrace.items i on i.item_id = w.id and i.pipeline = ${text(first!)} where w.token = any (i.finished_tokens))`,
])}
select case when exists (select 1 from ok) or exists (select 1 from known) then 'done' when l.id is null then 'missing'
    when ${held ? sql`true` : sql`l.free`} then 'done' else 'held' end as millrace_result, a.*
from w left join locked l on l.id = w.id
  left join (select * from upd union all select t.* from ${table(name)} t where t.id = (select w.id from w) and not exists (select 1 from upd)) a on a.id = w.id`,
  );
}

/** A write to a row that the caller holds; `next` takes the place of its token. */
export interface HeldWrite extends RowWrite {
  readonly next: string;
}

/**
 * Writes rows under their tokens, all or none, and gives each its next one, for another `seconds`, so that a repetition
 * finds the next ones and writes nothing. All set the same columns. Due at once; attempts of an ended item start again.
 */
export function heldUpdateSql(
  registry: Registry,
  name: string,
  writes: readonly HeldWrite[],
  seconds: number,
  inserts: readonly InsertGroup[] = [],
): Statement<HeldWriteRow & Readonly<Record<string, unknown>>> {
  const [first] = writes;
  const columns = first === undefined ? [] : [...Object.keys(first.set), ...first.nows].sort();
  const set = columns.length === 0 ? sql`` : sql`${patchColumns(columns, sql`jsonb_populate_record(t, k.set) p`)}, `;
  return statement(
    "held-update",
    name,
    sql`with
w as materialized (
  select x.id, x.token, x.next, ${withNows(sql`x.set`, sql`x.nows`)} as set
  from ${rows(writes, { id: "uuid", token: "uuid", next: "uuid", set: "jsonb", nows: "jsonb" })} x),
locked as materialized (
  select w.*, l.held_token from (select * from w order by id) w cross join lateral (
    select t.lock_token as held_token from ${table(name)} t where t.id = w.id and t.lock_token in (w.token, w.next) for no key update) l),
k as materialized (
  select * from locked l where (select count(*) from locked) = (select count(*) from w) and l.held_token = l.token),
ok as materialized (select k.id, k.next as token from k),
mine as materialized (
  select l.item_id, l.pipeline from (select * from k order by id) k cross join lateral (
    select i.item_id, i.pipeline from millrace.items i
    where i.item_id = k.id and i.pipeline in (${sql.join(registry.of(name).map((p) => text(p.name)))}) order by i.pipeline for no key update) l),
revived as (
  update millrace.items i set attempts = 0, resets = least(i.resets, 1), state = case when i.state = 'dead' then 'failed' else i.state end
  from mine m where i.item_id = m.item_id and i.pipeline = m.pipeline and i.finished_at is not null),
upd as (
  update ${table(name)} t set ${set}lock_token = k.next, lock_expires_at = now() + make_interval(secs => ${sql.lit(seconds)}), due_at = ${dueNow}
  from k where t.id = k.id and t.lock_token = k.token returning t.*),
${lines([
  ...inserts.map((group, n) => sql`${sql.id(`ins_${n}`)} as (${insertOf(group)})`),
  sql`a as materialized (
  select * from upd union all select l.* from w cross join lateral (select t.* from ${table(name)} t where t.id = w.id ${EACH}) l
  where not exists (select 1 from upd))`,
])}
select w.id as millrace_id, case when (select count(*) from locked) = (select count(*) from w) then 'done'
    when l.id is not null then 'ours' when a.id is null then 'missing' else 'held' end as millrace_result, a.*
from w left join locked l on l.id = w.id left join a on a.id = w.id`,
  );
}

/** Deletes a row under its token. A repetition finds it gone. */
export function heldDeleteSql(name: string, key: { readonly id: string; readonly token: string }): Statement<WriteRow> {
  return statement(
    "held-delete",
    name,
    sql`with
w as materialized (select * from ${rows([key], { id: "uuid", token: "uuid" })} x),
locked as materialized (
  select w.* from (select * from w order by id) w cross join lateral (
    select 1 from ${table(name)} t where t.id = w.id and t.lock_token = w.token for update) l),
${DELETING},
gone as (delete from ${table(name)} t using locked l where t.id = l.id and t.lock_token = l.token and ${TOLD} returning t.id)
select case when exists (select 1 from gone) then 'done'
  when exists (select 1 from ${table(name)} t where t.id = w.id) then 'held' else 'missing' end as millrace_result from w`,
  );
}

/**
 * Gives rows back: those that still carry one of our tokens, with the owner that each had; but not with one for a parent
 * that waits no longer.
 */
export function giveBackSql(
  registry: Registry,
  name: string,
  keys: readonly { readonly id: string; readonly token: string; readonly owner: string | null }[],
): Statement<{ readonly id: string }> {
  return statement(
    "give-back",
    name,
    sql`with
w as materialized (select * from ${rows(keys, { id: "uuid", token: "uuid", owner: "text" })} x),
locked as materialized (
  select w.* from (select * from w order by id) w cross join lateral (
    select 1 from ${table(name)} t where t.id = w.id and t.lock_token = w.token for no key update) l)
update ${table(name)} t set ${UNLOCK_KEEP} lock_owner = coalesce(t.lock_owner, case when ${stillReserved(registry, name, sql`l.owner`)} then l.owner end)
from locked l where t.id = l.id and t.lock_token = l.token returning t.id`,
  );
}

const UNLOCK_KEEP = sql`lock_token = null, lock_expires_at = null,`;
