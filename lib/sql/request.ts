import { sql } from "kysely";
import type { Pipeline } from "../define/pipeline.ts";
import { pipelineOf, rows, table, text } from "./parts.ts";
import { type Statement, statement } from "./statement.ts";

export interface RequestRow {
  readonly id: string;
  /** The pipeline that the row is ready for now; null = none. */
  readonly ready_for: string | null;
}

/**
 * A `due_at` of now that differs from what any claim saw, so that the pass that runs at this moment cannot push it away.
 */
export const dueNow = sql`case when t.due_at = now() then now() + interval '1 microsecond' else now() end`;

/**
 * Stores intent columns, held row or not, and makes the row due at once: free, held, backed off or dead alike. Attempts
 * of an ended item start again. Answers the rows that exist; sent twice, it stores the same again.
 */
export function requestSql(
  tableName: string,
  pipelines: readonly Pipeline[],
  ids: readonly string[],
  intent: Readonly<Record<string, unknown>>,
): Statement<RequestRow> {
  const columns = Object.keys(intent);
  const set =
    columns.length === 0
      ? sql``
      : sql`(${sql.join(columns.map((c) => sql.id(c)))}) = (select ${sql.join(columns.map((c) => sql.ref(`p.${c}`)))} from jsonb_populate_record(t, k.set) p),`;
  return statement(
    "request",
    tableName,
    sql`with
w as materialized (select * from ${rows(
      ids.map((id) => ({ id })),
      { id: "uuid" },
    )} x),
held as materialized (
  select w.id from (select distinct id from w order by id) w cross join lateral (
    select 1 from ${table(tableName)} t where t.id = w.id for no key update) l),
upd as (
  update ${table(tableName)} t set ${set} due_at = ${dueNow}
  from (select h.id, cast(cast(${JSON.stringify(intent)} as text) as jsonb) as set from held h) k where t.id = k.id
  returning t.id, ${pipelineOf(pipelines)} as ready_for),
ended as materialized (
  select l.item_id, l.pipeline, l.finished_at from (select h.id from held h order by h.id) h cross join lateral (
    select i.item_id, i.pipeline, i.finished_at from millrace.items i
    where i.item_id = h.id and i.pipeline in (${sql.join(pipelines.map((p) => text(p.name)))}) for no key update) l),
-- resets start again at one, not at none: the sweep must go on looking at a row whose owner may not want it any more
-- whether the item has ended is asked of the locked version: a failure that was waited for ended it after the snapshot
revived as (
  update millrace.items i set attempts = 0, resets = least(i.resets, 1), state = case when i.state = 'dead' then 'failed' else i.state end
  from ended e where i.item_id = e.item_id and i.pipeline = e.pipeline and e.finished_at is not null)
select u.id, u.ready_for from upd u`,
  );
}
