import { sql } from "kysely";
import { queueLower } from "../define/options.ts";
import { drained, pipelineOf, rememberToken, rows, type Scope, type Sql, table, text, UNLOCK } from "./parts.ts";
import { type Statement, statement } from "./statement.ts";
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
}

/** New rows of one table that name the same columns, so that the others get their defaults. */
export interface InsertGroup {
  readonly table: string;
  readonly columns: readonly string[];
  readonly rows: readonly {
    readonly item: string;
    readonly token: string;
    readonly row: Readonly<Record<string, unknown>>;
    readonly nows: readonly string[];
  }[];
}

export interface ApplyRow {
  readonly id: string;
  readonly token: string;
  readonly result: "applied" | "already" | "stale";
  /** The pipeline for which the row is ready and due right now: hint it. */
  readonly hint: string | null;
  /** Seconds until the earliest of the batch is due again, if a wake-up must be sent for it. */
  readonly wake_in: number | null;
  readonly drained: boolean;
}

/**
 * Writes the answers of a batch: each whole, or not at all. Guard: id and token, compared under the row's lock and again
 * in the write. A `due_at` that moved since the claim is a request: the earlier of the two stands. A repetition hears
 * `already` from the newest items row, read under its lock after the main row's.
 */
export function applySql(
  { pipeline: p, siblings, readyNames }: Scope,
  items: readonly ApplyItem[],
  inserts: readonly InsertGroup[],
): Statement<ApplyRow> {
  const columns = [...new Set(items.flatMap((i) => [...Object.keys(i.set), ...i.nows]))].sort();
  const watched = columns.filter((c) => readyNames.includes(c));
  const patch = sql`jsonb_populate_record(t, ok.set) p`;
  const set =
    columns.length === 0
      ? sql``
      : sql`(${sql.join(columns.map((c) => sql.id(c)))}) = (select ${sql.join(columns.map((c) => sql.ref(`p.${c}`)))} from ${patch}),`;
  const list = (alias: string) => sql`(${sql.join(watched.map((c) => sql.ref(`${alias}.${c}`)))})`;
  const moved =
    watched.length === 0
      ? sql`false`
      : sql`ok.due_by_default and (select row${list("p")} is distinct from row${list("t")} from ${patch})`;
  const due = sql`case when ${moved} then now() else now() + make_interval(secs => ok.due) end`;
  return statement(
    "apply",
    p.name,
    sql`with
w as materialized (
  select x.id, x.token, x.delete, x.due, x.due_by_default, x.seen, ${withNows(sql`x.set`, sql`x.nows`)} as set
  from ${rows(items, { id: "uuid", token: "uuid", set: "jsonb", nows: "jsonb", delete: "boolean", due: "float8", due_by_default: "boolean", seen: "timestamptz" })} x),
main as materialized (
  select w.* from (select * from w order by id) w cross join lateral (
    select 1 from ${table(p.table)} t where t.id = w.id and t.lock_token = w.token for no key update) l),
done as materialized (
  select w.id, w.token, l.pipeline, l.finished_tokens from (select * from w order by id) w cross join lateral (
    select i.pipeline, i.finished_tokens from millrace.items i where i.item_id = w.id and i.pipeline = ${text(p.name)} for no key update) l
  where (select count(*) from main) >= 0),
ok as materialized (select m.* from main m where (select count(*) from done) >= 0),
upd as (
  update ${table(p.table)} t set ${set} last_processed_at = now(), ${UNLOCK},
    due_at = case when t.due_at is not distinct from ok.seen then ${due} else least(t.due_at, ${due}) end
  from ok where t.id = ok.id and t.lock_token = ok.token and not ok.delete
  returning t.id, t.due_at, ${pipelineOf(siblings)} as ready_for),
gone as (delete from ${table(p.table)} t using ok where t.id = ok.id and t.lock_token = ok.token and ok.delete returning t.id),
${sql.join(
  inserts.map((group, n) => sql`${sql.id(`ins_${n}`)} as (${insertOf(group)}),`),
  sql`
`,
)}
fin as (
  update millrace.items i set state = 'applied', finished_tokens = ${rememberToken(sql`ok.token`)}, applied_token = ok.token, finished_at = now(),
    lock_token = null, alive_until = null, attempts = 0, resets = 0, last_error = null, prev_lock_expired = false
  from ok join done d on d.id = ok.id and d.token = ok.token where i.item_id = d.id and i.pipeline = d.pipeline),
${armed(p.name, sql`(select min(u.due_at) from upd u where u.ready_for = ${text(p.name)} and u.due_at > now())`)}
select w.id, w.token, case when ok.id is not null then 'applied' when w.token = any (d.finished_tokens) then 'already' else 'stale' end as result,
  case when ok.id is not null then (select u.ready_for from upd u where u.id = ok.id and u.due_at <= now())
    when w.token = any (d.finished_tokens) then (select ${pipelineOf(siblings)} from ${table(p.table)} t where t.id = w.id and t.due_at <= now() and t.lock_token is null) end as hint,
  (select wake_in from armed) as wake_in, ${drained(p, queueLower(p.options), sql`0`)} as drained
from w left join ok on ok.id = w.id and ok.token = w.token left join done d on d.id = w.id and d.token = w.token`,
  );
}

/** Adds the statement's instant under each of the named columns. */
const withNows = (values: Sql, nows: Sql): Sql =>
  sql`coalesce(${values}, '{}'::jsonb) || coalesce((select jsonb_object_agg(c, now()) from jsonb_array_elements_text(${nows}) c), '{}'::jsonb)`;

function insertOf(group: InsertGroup): Sql {
  const columns = group.columns.map((c) => sql.id(c));
  const given = rows(group.rows, { item: "uuid", token: "uuid", row: "jsonb", nows: "jsonb" });
  // a row of defaults alone names no column: an empty list is written as no list
  const list = columns.length === 0 ? sql`` : sql`(${sql.join(columns)})`;
  return sql`insert into ${table(group.table)} ${list} select ${sql.join(group.columns.map((c) => sql.ref(`p.${c}`)))}
    from ${given} x join ok on ok.id = x.item and ok.token = x.token
    cross join lateral jsonb_populate_record(null::${table(group.table)}, ${withNows(sql`x.row`, sql`x.nows`)}) p`;
}
