import { sql } from "kysely";
import { text, uuid } from "./parts.ts";
import { type Statement, statement } from "./statement.ts";

/** Stops the fetcher of a pipeline. What is queued still runs. The armed wake-up is cleared, or it would block the next. */
export function pauseSql(pipeline: string, by: string | null): Statement<{ readonly name: string }> {
  return statement(
    "pause",
    pipeline,
    sql`with
p as (
  update millrace.pipelines q set paused_at = coalesce(q.paused_at, now()), paused_by = case when q.paused_at is null then cast(cast(${by} as text) as text) else q.paused_by end
  where q.name = ${text(pipeline)} returning q.name),
w as (update millrace.wakeups k set wake_at = null from p where k.pipeline = p.name)
select name from p`,
  );
}

/** Lets the fetcher go on; hint afterwards. */
export function resumeSql(pipeline: string): Statement<{ readonly name: string }> {
  return statement(
    "resume",
    pipeline,
    sql`update millrace.pipelines q set paused_at = null, paused_by = null where q.name = ${text(pipeline)} returning q.name`,
  );
}

export interface PipelineStatus {
  readonly name: string;
  readonly paused_at: Date | null;
  readonly paused_by: string | null;
  readonly fetched_at: Date | null;
  readonly locked: number;
  readonly queued: number;
  readonly processing: number;
  readonly failed: number;
  readonly dead: number;
}

/** Every pipeline: paused or not, what is in flight, what waits for another try, what is dead. */
export function statusSql(): Statement<PipelineStatus> {
  return statement(
    "status",
    "all",
    sql`select q.name, q.paused_at, q.paused_by, q.fetched_at,
  count(i.*) filter (where i.finished_at is null and i.state = 'locked')::int as locked,
  count(i.*) filter (where i.finished_at is null and i.state = 'queued')::int as queued,
  count(i.*) filter (where i.finished_at is null and i.state = 'processing')::int as processing,
  count(i.*) filter (where i.state = 'failed')::int as failed, count(i.*) filter (where i.state = 'dead')::int as dead
from millrace.pipelines q left join millrace.items i on i.pipeline = q.name group by q.name order by q.name`,
  );
}

export interface ItemStatus {
  readonly state: string;
  readonly attempts: number;
  readonly last_error: string | null;
  readonly worker: string | null;
}

/** What is remembered of one row's last passes. */
export function itemSql(pipeline: string, id: string): Statement<ItemStatus> {
  return statement(
    "item",
    pipeline,
    sql`select i.state, i.attempts, i.last_error, i.worker from millrace.items i where i.item_id = ${uuid(id)} and i.pipeline = ${text(pipeline)}`,
  );
}
