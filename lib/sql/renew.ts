import { sql } from "kysely";
import type { Pipeline } from "../define/pipeline.ts";
import { relatedTables } from "../define/registry.ts";
import { EACH, lines, rows, type Sql, seconds, table, text } from "./parts.ts";
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
 * The worker says that it lives: lease and lock of its items are extended, and the locks of their related rows with
 * them. An item that is not renewed has lost its lock. Guard: id and token, on the row and on the item; related rows by
 * the item's token. Waits for its own rows; a related row that somebody has locked is left for the next renewal.
 */
export function renewSql(p: Pipeline, keys: readonly RenewKey[]): Statement<RenewRow> {
  const { lockTimeoutSeconds, leaseSeconds, heartbeatTickSeconds } = p.options;
  const lease = sql`least(${sql.lit(leaseSeconds)}::float8, h.left)`;
  const expiry = sql`now() + least(${seconds(lockTimeoutSeconds)}, make_interval(secs => ${lease} + ${sql.lit(heartbeatTickSeconds)}))`;
  const around = relatedTables(p);
  const main = (after: Sql) => sql`held as materialized (
  select w.* from (select * from w order by id) w cross join lateral (
    select 1 from ${table(p.table)} t where t.id = w.id and t.lock_token = w.token for no key update) l
  where (select count(*) from ${after}) >= 0)`;
  const related = around.map((name, n) => relatedOf(p, name, n, expiry));
  const locks: Sql[] = [];
  let last: Sql = sql`w`;
  for (const r of related.filter((r) => r.table < p.table)) {
    locks.push(...r.lock(last));
    last = r.locked;
  }
  locks.push(main(last));
  last = sql`held`;
  for (const r of related.filter((r) => r.table > p.table)) {
    locks.push(...r.lock(last));
    last = r.locked;
  }
  return statement(
    "renew",
    p.name,
    sql`with
w as materialized (select * from ${rows(keys, { id: "uuid", token: "uuid", left: "float8" })} x),
${lines(locks)},
kept as materialized (
  select h.*, l.pipeline from (select * from held order by id) h cross join lateral (
    select i.pipeline from millrace.items i where i.item_id = h.id and i.pipeline = ${text(p.name)} and i.lock_token = h.token and i.state = 'processing' for no key update) l
  where (select count(*) from ${last}) >= 0),
row as (
  update ${table(p.table)} t set lock_expires_at = ${expiry}
  from kept h where t.id = h.id and t.lock_token = h.token returning t.id),
${lines([...related.map((r) => r.write), sql``])}item as (
  update millrace.items i set alive_until = now() + make_interval(secs => ${lease})
  from kept h where i.item_id = h.id and i.pipeline = h.pipeline and i.lock_token = h.token returning i.item_id)
select w.id, w.token, row.id is not null and item.item_id is not null as renewed
from w left join kept h on h.id = w.id and h.token = w.token left join row on row.id = h.id left join item on item.item_id = h.id`,
  );
}

interface RelatedRenewal {
  readonly table: string;
  readonly locked: Sql;
  readonly lock: (after: Sql) => readonly Sql[];
  readonly write: Sql;
}

/** CTEs of one related table: e_ the ids that stand on the items' lists, l_ the rows locked, u_ the rows extended. */
function relatedOf(p: Pipeline, name: string, n: number, expiry: Sql): RelatedRenewal {
  const [e, l, u] = [`e_${n}`, `l_${n}`, `u_${n}`].map((cte) => sql.id(cte)) as [Sql, Sql, Sql];
  return {
    table: name,
    locked: l,
    lock: (after) => [
      sql`${e} as materialized (
  select w.id as item, w.token, cast(k.id as uuid) as id from w cross join lateral (
    select i.related from millrace.items i where i.item_id = w.id and i.pipeline = ${text(p.name)} ${EACH}) i
  cross join lateral jsonb_array_elements_text(i.related -> ${text(name)}) k(id))`,
      sql`${l} as materialized (
  select r.* from (select * from ${e} order by id) r cross join lateral (
    select 1 from ${table(name)} t where t.id = r.id and t.lock_token = r.token for no key update skip locked) x
  where (select count(*) from ${after}) >= 0)`,
    ],
    write: sql`${u} as (
  update ${table(name)} t set lock_expires_at = ${expiry}
  from ${l} r join kept h on h.id = r.item and h.token = r.token where t.id = r.id and t.lock_token = r.token)`,
  };
}
