import { sql } from "kysely";
import type { Pipeline } from "../define/pipeline.ts";
import { rows, seconds, table, text } from "./parts.ts";
import { type Statement, statement } from "./statement.ts";

export interface RenewKey {
  readonly id: string;
  readonly token: string;
  /** Seconds that the worker's function still has; nobody is alive beyond its own deadline. */
  readonly left: number;
}

export interface RenewRow {
  readonly id: string;
  readonly token: string;
  readonly renewed: boolean;
}

/**
 * The worker says that it lives: lease and lock of its items are extended. An item that is not
 * renewed has lost its lock. Guard: id and token, on the row and on the item.
 */
export function renewSql(p: Pipeline, keys: readonly RenewKey[]): Statement<RenewRow> {
  const { lockTimeoutSeconds, leaseSeconds, heartbeatTickSeconds } = p.options;
  const lease = sql`least(${sql.lit(leaseSeconds)}::float8, h.left)`;
  return statement(
    "renew",
    p.name,
    sql`with
w as materialized (select * from ${rows(keys, { id: "uuid", token: "uuid", left: "float8" })} x),
held as materialized (
  select w.* from (select * from w order by id) w cross join lateral (
    select 1 from ${table(p.table)} t where t.id = w.id and t.lock_token = w.token for no key update) l),
kept as materialized (
  select h.*, l.pipeline from (select * from held order by id) h cross join lateral (
    select i.pipeline from millrace.items i where i.item_id = h.id and i.pipeline = ${text(p.name)} and i.lock_token = h.token and i.state = 'processing' for no key update) l),
row as (
  update ${table(p.table)} t set lock_expires_at = now() + least(${seconds(lockTimeoutSeconds)}, make_interval(secs => ${lease} + ${sql.lit(heartbeatTickSeconds)}))
  from kept h where t.id = h.id and t.lock_token = h.token returning t.id),
item as (
  update millrace.items i set alive_until = now() + make_interval(secs => ${lease})
  from kept h where i.item_id = h.id and i.pipeline = h.pipeline and i.lock_token = h.token returning i.item_id)
select w.id, w.token, row.id is not null and item.item_id is not null as renewed
from w left join kept h on h.id = w.id and h.token = w.token left join row on row.id = h.id left join item on item.item_id = h.id`,
  );
}
