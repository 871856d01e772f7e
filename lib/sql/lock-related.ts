import { sql } from "kysely";
import type { RelatedLocks } from "../define/locks.ts";
import { EACH, rows, type Scope, type Sql, stateOf, table, text } from "./parts.ts";
import { type Statement, statement } from "./statement.ts";
import { mainColumns, type Want, wantsOf } from "./wanted.ts";

export interface LockKey {
  readonly id: string;
  readonly token: string;
  /** The state at the claim: if it has changed, its locks are not the ones that are needed. */
  readonly state: string;
}

/** The engine's columns of an answer; the main row's own columns, as they are under the locks, stand beside them. */
export interface LockRow {
  readonly millrace_id: string;
  readonly millrace_token: string;
  /**
   * `contention`: some wanted row is not to be had; nothing was locked. `moved`: the row is in another state now, or in
   * none. `gone`: a row that the main row names does not exist.
   */
  readonly millrace_result: "locked" | "contention" | "moved" | "gone" | "stale";
  /** `due_at` as text with microseconds, for apply. */
  readonly millrace_seen_due: string | null;
  readonly millrace_now: Date;
  /** JSON: lock name → ids that are locked, ascending. */
  readonly millrace_related: string;
  /** JSON: lock name → ids that are wanted and not to be had. */
  readonly millrace_missing: string;
}

/**
 * Locks the related rows of a batch under the main rows' tokens: for each main row all that it wants, or none. Answers
 * the main row as it is under the locks. Guard: the main row's token. Of two main rows of a batch that want one row the
 * first gets it. Never waits for a related row. With a `pick` among the locks there must be one main row only.
 */
export function lockRelatedSql(
  scope: Scope,
  locks: RelatedLocks,
  keys: readonly LockKey[],
): Statement<LockRow & Readonly<Record<string, unknown>>> {
  const { pipeline: p } = scope;
  const wants = wantsOf(scope, locks);
  const columns = mainColumns(locks);
  const named = sql.join([sql``, ...columns.map((c) => sql.ref(`s.${c}`))]);
  const list = (alias: string) => sql`row(${sql.join(columns.map((c) => sql.ref(`${alias}.${c}`)))})`;
  const same = columns.length === 0 ? sql`true` : sql`${list("s")} is not distinct from ${list("l")}`;
  const ctes: Sql[] = [];
  let last: Sql = sql`seen`;
  const take = ({ want, candidates, got, locked }: Want) => {
    ctes.push(sql`${want} as materialized (${candidates})`, sql`${got} as materialized (${locked(last)})`);
    last = got;
  };
  for (const want of wants.filter((w) => w.lock.table < p.table)) take(want);
  ctes.push(sql`main as materialized (
  select s.millrace_state as millrace_was, ${same} as millrace_same, l.* from (select * from seen order by millrace_id) s cross join lateral (
    select t.lock_token as millrace_held, ${stateOf(p)} as millrace_state, t.due_at::text as millrace_seen_due, t.* from ${table(p.table)} t
    where t.id = s.millrace_id and t.lock_token = s.millrace_token for no key update) l
  where (select count(*) from ${last}) >= 0)`);
  last = sql`main`;
  for (const want of wants.filter((w) => w.lock.table > p.table)) take(want);
  const any = (of: (want: Want) => Sql) => sql.join(wants.map(of), sql` or `);
  const ids = (of: (want: Want) => Sql) =>
    sql`json_strip_nulls(json_build_object(${sql.join(wants.flatMap((want) => [text(want.name), of(want)]))}))::text`;
  return statement(
    "lock-related",
    p.name,
    sql`with
w as materialized (select * from ${rows(keys, { id: "uuid", token: "uuid", state: "text" })} x),
-- what the main rows name, by the statement's snapshot; compared again under their locks
seen as materialized (
  select w.id as millrace_id, w.token as millrace_token, w.state as millrace_state${named}
  from (select * from w order by id) w cross join lateral (select * from ${table(p.table)} t where t.id = w.id and t.lock_token = w.token ${EACH}) s),
${join(ctes)},
kept as materialized (
  select l.item_id, l.pipeline from (select * from main order by id) m cross join lateral (
    select i.item_id, i.pipeline from millrace.items i where i.item_id = m.id and i.pipeline = ${text(p.name)} and i.lock_token = m.millrace_held for no key update) l
  where (select count(*) from ${last}) >= 0),
verdict as materialized (
  select m.id, m.millrace_held as token, m.lock_expires_at, case when k.item_id is null then 'stale' when m.millrace_state is distinct from m.millrace_was then 'moved'
    when not m.millrace_same then 'contention' when ${any((w) => w.gone(sql`m.id`))} then 'gone' when ${any((w) => w.lacking(sql`m.id`))} then 'contention' else 'locked' end as result
  from main m left join kept k on k.item_id = m.id),
${join(wants.map(({ upd, update }) => sql`${upd} as (${update})`))},
-- what an attempt that died had locked stays on the list: those locks are dead, and the ending of this pass clears them
noted as (
  update millrace.items i set related = (
    select jsonb_object_agg(n.name, n.ids) from (
      select a.name, jsonb_agg(distinct a.id) as ids from (
        select o.key as name, e.id from jsonb_each(coalesce(i.related, '{}')) o cross join lateral jsonb_array_elements_text(o.value) e(id)
        ${sql.join(
          wants.map(
            ({ lock, got }) => sql`union select ${text(lock.table)}, g.id::text from ${got} g where g.item = v.id`,
          ),
          sql` `,
        )}) a group by a.name) n)
  from verdict v join kept k on k.item_id = v.id where v.result = 'locked' and i.item_id = k.item_id and i.pipeline = k.pipeline)
select w.id as millrace_id, w.token as millrace_token, coalesce(v.result, 'stale') as millrace_result, now() as millrace_now,
  ${ids(({ upd }) => sql`(select json_agg(u.id order by u.id) from ${upd} u where u.item = w.id and u.ok)`)} as millrace_related,
  ${ids(({ missing }) => missing(sql`w.id`))} as millrace_missing, main.*
from w left join verdict v on v.id = w.id and v.token = w.token left join main on main.id = v.id`,
  );
}

const join = (ctes: readonly Sql[]): Sql =>
  sql.join(
    ctes,
    sql`,
`,
  );
