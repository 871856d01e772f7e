import { sql } from "kysely";
import type { Registry } from "../define/registry.ts";
import { endedState, endTaken, lockForWriter, lockItems } from "./free.ts";
import { lines, rows, table, text } from "./parts.ts";
import { type Statement, statement } from "./statement.ts";

/** The engine's columns of an answer; the row's own stand beside them when it is held by the caller now. */
export interface HoldRow {
  readonly millrace_id: string;
  readonly millrace_result: "ours" | "held" | "free" | "missing";
  /** An owner that the lock hides, to be put back with the row. */
  readonly millrace_owner: string | null;
}

/**
 * Locks rows for a writer outside of pipelines: all or none, in id order, under one token that the caller made, for so
 * many seconds. An owner of the row's own pipelines stays beside the token; one that reserves the row for a parent is
 * hidden until the row is given back, since beside a token it would say that the parent holds it. A lock that is taken
 * away ends its item. A repetition finds its own token.
 */
export function holdSql(
  registry: Registry,
  name: string,
  ids: readonly string[],
  token: string,
  seconds: number,
): Statement<HoldRow & Readonly<Record<string, unknown>>> {
  const pipelines = registry.of(name);
  const own = sql.join(pipelines.map((p) => text(p.name)));
  const keys = rows(
    ids.map((id) => ({ id, token })),
    { id: "uuid", token: "uuid" },
  );
  return statement(
    "hold",
    name,
    sql`with
w as materialized (select * from ${keys} x),
${lines(lockForWriter(registry, name))},
ok as materialized (
  select l.*, case when l.held_token <> l.token then l.held_token end as taken from locked l
  where (select count(*) from locked l where l.free) = (select count(*) from w)),
${lockItems(pipelines, sql`ok`)},
ended as (
  update millrace.items i set state = ${endedState(sql`m.taken`)}, ${endTaken(sql`m.taken`)}
  from mine m where m.taken is not null and i.item_id = m.item_id and i.pipeline = m.pipeline and i.lock_token = m.taken),
-- by id alone: the rows are locked, and the snapshot's versions, of which the update asks first, may carry older tokens
upd as (
  update ${table(name)} t set lock_token = ok.token, lock_expires_at = now() + make_interval(secs => ${sql.lit(seconds)}),
    lock_owner = case when ok.taken is null and t.lock_owner in (${own}) then t.lock_owner end
  from ok where t.id = ok.id returning t.*)
select w.id as millrace_id, case when u.id is not null then 'ours' when l.id is null then 'missing' when l.free then 'free' else 'held' end as millrace_result,
  case when u.lock_owner is null and ok.taken is null then l.held_owner end as millrace_owner, u.*
from w left join locked l on l.id = w.id left join ok on ok.id = w.id left join upd u on u.id = w.id`,
  );
}
