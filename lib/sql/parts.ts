import { type RawBuilder, sql } from "kysely";
import type { Pipeline } from "../define/pipeline.ts";
import type { Registry } from "../define/registry.ts";

/*
 * How every statement is written, and why:
 * - Lock first, in a CTE of its own, then write. `cross join lateral (select … for no key update)` is a nested loop in
 *   id order whatever the planner estimates, and the token is compared again on the newest version after a wait
 *   (https://www.postgresql.org/docs/17/transaction-iso.html#XACT-READ-COMMITTED).
 * - One order everywhere, or two batches deadlock: tables by name, ids ascending, then millrace.items, then
 *   millrace.pipelines and millrace.wakeups with `skip locked`. `where (select count(*) from earlier) >= 0` forces it.
 * - Time is `now()`, the start of the statement, and nothing else.
 */

/** A pipeline among those of its table, and of the tables around it. */
export interface Scope {
  readonly registry: Registry;
  readonly pipeline: Pipeline;
  /** All pipelines of the table, this one included. */
  readonly siblings: readonly Pipeline[];
  /** Names that some `ready` of the table mentions. */
  readonly readyNames: readonly string[];
}

export function scopeOf(registry: Registry, pipeline: Pipeline): Scope {
  return {
    registry,
    pipeline,
    siblings: registry.of(pipeline.table),
    readyNames: registry.readyNames(pipeline.table),
  };
}

/** A fragment of SQL. */
export type Sql = RawBuilder<unknown>;

type JsonColumn = "uuid" | "text" | "jsonb" | "float8" | "boolean" | "timestamptz" | "int";

/**
 * Rows as one JSON text parameter. The planner expects one row of it (the range on `ordinal`), so every join with the
 * batch is an index lookup a row, whatever the size of the table and whether it was ever analysed.
 */
export function rows(values: readonly object[], columns: Readonly<Record<string, JsonColumn>>): Sql {
  const names = Object.keys(columns).map((name) => sql.id(name));
  const typed = Object.entries(columns).map(([name, type]) => sql`${sql.id(name)} ${sql.raw(type)}`);
  return sql`(select ${sql.join(names)} from rows from (json_to_recordset(cast(cast(${JSON.stringify(values)} as text) as json)) as (${sql.join(typed)})) with ordinality as x(${sql.join(names)}, ordinal) where x.ordinal between 1 and 1000000)`;
}

export const table = (name: string): Sql => sql.table(name);
export const text = (value: string): Sql => sql.lit(value);
export const int = (value: number): Sql => sql.lit(Math.trunc(value));
export const seconds = (value: number): Sql => sql`make_interval(secs => ${sql.lit(value)})`;
export const uuid = (value: string): Sql => sql`cast(cast(${value} as text) as uuid)`;

/** Nobody holds it, nobody owns it. */
export const UNLOCK: Sql = sql`lock_token = null, lock_owner = null, lock_expires_at = null`;

/** Any state's condition; the same text as the fetch index's predicate. */
export function readyAny(p: Pipeline, alias: "t" | null): Sql {
  const conditions = p.states.map((s) => `(${alias === null ? s.ready.text : s.ready.aliased})`);
  return sql.raw(`(${conditions.join(" or ")})`);
}

/** The name of the first state whose condition holds for `t`; null for none. */
export function stateOf(p: Pipeline): Sql {
  const whens = p.states.map((s) => sql`when ${sql.raw(`(${s.ready.aliased})`)} then ${text(s.name)}`);
  return sql`case ${sql.join(whens, sql` `)} end`;
}

/** The pipeline of the table for which `t` is ready; null for none. A row is ready for one at a time. */
export function pipelineOf(pipelines: readonly Pipeline[]): Sql {
  const whens = pipelines.map((p) => sql`when ${readyAny(p, "t")} then ${text(p.name)}`);
  return sql`case ${sql.join(whens, sql` `)} end`;
}

/**
 * A condition of which the planner expects half of the rows, whatever its statistics say, and for which it uses no
 * index. Of columns that are null it expects hardly any row until somebody analyses the table: the first rows by
 * `due_at` then seem far away, so that it reads and sorts all; and the index of items in flight seems to hold one.
 */
export const common = (condition: Sql): Sql => sql`case when ${condition} then true else false end`;

/**
 * Ends a subquery that is to be run once for each outer row, as an index lookup. Without it the planner may make a join
 * of it, or a hash of the whole table, where it expects many outer rows.
 */
export const EACH = sql`offset 0`;

/** `t` is not held by a live lock, and nobody but this pipeline owns it. */
export const freeFor = (p: Pipeline): Sql =>
  common(
    sql`(t.lock_expires_at is null or t.lock_expires_at < now()) and (t.lock_owner is null or t.lock_owner = ${text(p.name)})`,
  );

/** Delays by consecutive resets, in seconds; the last one repeats (dstack: the fetcher's retry delays). */
const RESET_SECONDS = [0.5, 1, 2, 5] as const;

/** How long a row that was reset so many times before waits for its next try. */
export const resetDelay = (resets: Sql): Sql =>
  sql`make_interval(secs => (array[${sql.join(RESET_SECONDS.map((s) => sql.lit(s)))}])[least(${resets} + 1, ${sql.lit(RESET_SECONDS.length)})]::float8)`;

/**
 * The back-off after so many failed or lost attempts: first × factor^(attempts − 1), at most `maxSeconds`, ± jitter.
 * The exponent is bounded so that the power cannot overflow.
 */
export function backoff(p: Pipeline, attempts: Sql): Sql {
  const { firstSeconds, factor, maxSeconds, jitter } = p.options.backoff;
  return sql`make_interval(secs => least(${sql.lit(maxSeconds)}::float8, ${sql.lit(firstSeconds)}::float8 * power(${sql.lit(factor)}::float8, least(greatest(${attempts} - 1, 0), 60)))
    * (${sql.lit(1 - jitter)}::float8 + ${sql.lit(2 * jitter)}::float8 * random()))`;
}

/** So many attempts are too many. */
export const isDead = (p: Pipeline, attempts: Sql): Sql =>
  p.options.maxAttempts === null ? sql`false` : sql`${attempts} >= ${int(p.options.maxAttempts)}`;

/**
 * True when the last fetch stopped at a full queue and fewer than the lower limit wait now: somebody should look again.
 * `leaving` items leave the queue by this very statement, whose own writes its snapshot does not show.
 */
export function drained(p: Pipeline, lower: number, leaving: Sql): Sql {
  return sql`coalesce((select q.drain and (
      select count(*) from millrace.items i where i.pipeline = ${text(p.name)} and i.finished_at is null
        and i.state in ('locked', 'queued') and i.alive_until > now()) - ${leaving} < ${int(lower)}
    from millrace.pipelines q where q.name = ${text(p.name)}), false)`;
}

/** Puts a token in front of the last finished ones and keeps three. */
export const rememberToken = (token: Sql): Sql =>
  sql`trim_array(array_prepend(${token}, i.finished_tokens), greatest(cardinality(i.finished_tokens) - 2, 0))`;

/** CTEs, one after the other. */
export const lines = (ctes: readonly Sql[]): Sql =>
  sql.join(
    ctes,
    sql`,
`,
  );
