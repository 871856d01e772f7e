import { sql } from "kysely";
import { queueWaitSeconds } from "../define/options.ts";
import type { Pipeline } from "../define/pipeline.ts";
import { int, rows, seconds, table, UNLOCK } from "./parts.ts";
import { type Statement, statement } from "./statement.ts";
import { armed } from "./wakeup.ts";

export interface EnqueueRow {
  readonly queued: number;
  readonly freed: number;
  /** Seconds after which the freed rows want another fetch; null = a wake-up is armed already. */
  readonly wake_in: number | null;
}

interface Key {
  readonly id: string;
  readonly token: string;
}

/**
 * After a send: items whose message was accepted (or got no answer) are queued; rows whose message was refused are
 * freed, their `due_at` untouched, and a wake-up is armed for `retrySeconds` later. Guard: the fetch's token, and state
 * `locked`: an item that was claimed or ended meanwhile is left alone.
 */
export function enqueueSql(
  p: Pipeline,
  accepted: readonly Key[],
  refused: readonly Key[],
  retrySeconds: number,
): Statement<EnqueueRow> {
  const columns = { id: "uuid", token: "uuid" } as const;
  return statement(
    "enqueue",
    p.name,
    sql`with
yes as materialized (select * from ${rows(accepted, columns)} x),
no as materialized (select * from ${rows(refused, columns)} x),
held as materialized (
  select n.id, n.token from (select * from no order by id) n cross join lateral (
    select 1 from ${table(p.table)} t where t.id = n.id and t.lock_token = n.token for no key update) l),
touched as materialized (
  select u.id, u.token, u.accepted, l.pipeline from (
    select y.id, y.token, true as accepted from yes y union all select h.id, h.token, false from held h order by 1) u
  cross join lateral (
    select i.pipeline from millrace.items i where i.item_id = u.id and i.pipeline = ${sql.lit(p.name)} and i.lock_token = u.token and i.state = 'locked' for no key update) l
  where (select count(*) from held) >= 0),
unlocked as (
  update ${table(p.table)} t set ${UNLOCK} from touched k where not k.accepted and t.id = k.id and t.lock_token = k.token returning t.id),
marked as (
  update millrace.items i set state = case when k.accepted then 'queued' else 'released' end,
    queued_at = case when k.accepted then now() end, finished_at = case when k.accepted then null::timestamptz else now() end,
    lock_token = case when k.accepted then i.lock_token end,
    alive_until = case when k.accepted then now() + ${seconds(queueWaitSeconds(p.options))} end
  from touched k where i.item_id = k.id and i.pipeline = k.pipeline and i.lock_token = k.token and i.state = 'locked' returning k.accepted),
${armed(p.name, sql`(select now() + make_interval(secs => ${int(retrySeconds)}) where exists (select 1 from unlocked))`)}
select (select count(*) from marked where accepted)::int as queued, (select count(*) from unlocked)::int as freed,
  (select wake_in from armed) as wake_in`,
  );
}
