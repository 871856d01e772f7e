import { sql } from "kysely";
import { type RelatedLock, type RelatedLocks, relatedOwner } from "../define/locks.ts";
import { common, EACH, int, type Scope, type Sql, table, text } from "./parts.ts";
import { deadLock, yielding } from "./related.ts";

/** Candidates that a `pick` looks at: a table of held rows must not be read whole. */
const MOST_CANDIDATES = 100;

/** One related lock in the statement that takes it: its CTEs by name, and their text. */
export interface Want {
  readonly name: string;
  readonly lock: RelatedLock;
  /** item (main row), id, gone, and by the statement's snapshot: seen_token, dead, yields. */
  readonly want: Sql;
  readonly candidates: Sql;
  /** item, id: rows that are free and locked by this statement; `locked` builds it, to run after `last`. */
  readonly got: Sql;
  readonly locked: (last: Sql) => Sql;
  /** item, id, ok: rows written. */
  readonly upd: Sql;
  readonly update: Sql;
  /** A row that main row `id` names does not exist. */
  readonly gone: (id: Sql) => Sql;
  /** Main row `id` did not get all that it wants. */
  readonly lacking: (id: Sql) => Sql;
  /** JSON list of what main row `id` wants and cannot have; null = nothing. */
  readonly missing: (id: Sql) => Sql;
}

/** The columns of the main row by which its related rows are found. */
export const mainColumns = (locks: RelatedLocks): readonly string[] => [
  ...new Set(
    Object.values(locks).flatMap((lock) =>
      lock.kind === "children" ? [] : lock.kind === "pick" ? Object.values(lock.match) : [lock.column],
    ),
  ),
];

/** The locks of a statement in the order in which tables are locked. */
export function wantsOf(scope: Scope, locks: RelatedLocks): readonly Want[] {
  return Object.entries(locks)
    .sort(([, a], [, b]) => (a.table < b.table ? -1 : 1))
    .map(([name, lock], n) => wantOf(scope, name, lock, n));
}

function wantOf(scope: Scope, name: string, lock: RelatedLock, n: number): Want {
  const [want, got, upd] = ["want", "got", "upd"].map((prefix) => sql.id(`${prefix}_${n}`)) as [Sql, Sql, Sql];
  const pick = lock.kind === "pick";
  const absent = sql`select 1 from ${want} x left join ${got} g on g.id = x.id and g.item = x.item where g.id is null`;
  const none = (id: Sql) => sql`not exists (select 1 from ${got} g where g.item = ${id})`;
  return {
    name,
    lock,
    want,
    got,
    upd,
    candidates: candidates(scope, lock),
    locked: (last) => (pick ? firstFree(scope, lock, want, last) : allFree(scope, lock, want, last)),
    update: updateOf(scope, lock, got),
    gone: (id) => (pick ? sql`false` : sql`exists (select 1 from ${want} x where x.item = ${id} and x.gone)`),
    lacking: (id) => (pick ? none(id) : sql`exists (${absent} and x.item = ${id})`),
    missing: (id) =>
      pick
        ? sql`case when v.result = 'contention' and ${none(id)} then '[]'::json end`
        : sql`(select json_agg(x.id order by x.id) from ${want} x left join ${got} g on g.id = x.id and g.item = x.item
      where x.item = ${id} and g.id is null and (x.gone or v.result = 'contention'))`,
  };
}

/** Out of the planner's sight: it may repeat a fetch index's predicate, and that index would be read whole. */
const whereOf = (lock: RelatedLock): Sql =>
  "where" in lock && lock.where !== null ? common(sql.raw(lock.where.aliased)) : sql`true`;

/** What the main rows want, by the statement's snapshot. */
function candidates(scope: Scope, lock: RelatedLock): Sql {
  const { registry, pipeline: p } = scope;
  const t = table(lock.table);
  const look = sql`t.id, t.lock_token as seen_token, ${deadLock(registry, lock.table)} as dead, ${yielding(registry, lock.table, p.table)} as yields`;
  const found = sql`s.millrace_id as item, s.millrace_token as token`;
  if (lock.kind === "children")
    return sql`select ${found}, c.id, false as gone, c.seen_token, c.dead, c.yields from seen s cross join lateral (
    select ${look} from ${t} t where ${sql.ref(`t.${lock.column}`)} = s.millrace_id and ${whereOf(lock)} ${EACH}) c`;
  if (lock.kind === "pick") {
    // under names of our own: the table's columns may be called anything
    const named = sql.join([
      sql``,
      ...lock.orderBy.map((column, n) => sql`${sql.ref(`t.${column}`)} as ${sql.id(`order_${n}`)}`),
    ]);
    const order = [...lock.orderBy.map((_, n) => `order_${n}`), "id"].map((column) => sql.ref(`c.${column}`));
    // the row of an earlier try whose answer was lost comes first, so that a repetition picks it again
    return sql`select ${found}, c.id, c.seen_token, c.dead, c.yields, row_number() over (order by c.ours desc, ${sql.join(order)}) as n from seen s cross join lateral (
    select * from (select ${look}, t.lock_token, t.lock_owner, t.lock_expires_at, coalesce(t.lock_token = s.millrace_token, false) as ours${named}
      from ${t} t where ${matching(lock, sql`s`)} and ${whereOf(lock)}) c
    where ${free(scope, lock, sql`c`, sql`s.millrace_token`, sql`s.millrace_id`, sql`c`)} order by c.ours desc, ${sql.join(order)} limit ${int(MOST_CANDIDATES)}) c`;
  }
  const column = sql.ref(`s.${lock.column}`);
  const ids =
    lock.kind === "parent" ? sql`select ${column} as id` : sql`select distinct u.id from unnest(${column}) u(id)`;
  return sql`select ${found}, n.id, c.id is null as gone, c.seen_token, coalesce(c.dead, false) as dead, coalesce(c.yields, false) as yields
  from seen s cross join lateral (${ids}) n left join lateral (select ${look} from ${t} t where t.id = n.id ${EACH}) c on true where n.id is not null`;
}

const matching = (lock: RelatedLock, s: Sql): Sql =>
  lock.kind !== "pick"
    ? sql`true`
    : sql.join(
        [sql`true`, ...Object.entries(lock.match).map(([c, main]) => sql`${sql.ref(`t.${c}`)} = ${s}.${sql.id(main)}`)],
        sql` and `,
      );

/** Locks in id order what is free of the wanted rows; a row that two main rows want goes to the first. */
function allFree(scope: Scope, lock: RelatedLock, want: Sql, last: Sql): Sql {
  const child = lock.kind === "children" ? sql`${sql.ref(`t.${lock.column}`)} = f.item` : sql`true`;
  return sql`select f.item, f.id from (select distinct on (x.id) x.* from ${want} x where not x.gone order by x.id, x.item) f cross join lateral (
    select 1 from ${table(lock.table)} t where t.id = f.id and ${child} and ${whereOf(lock)}
      and ${free(scope, lock, sql`t`, sql`f.token`, sql`f.item`, sql`f`)} for no key update skip locked) l
  where (select count(*) from ${last}) >= 0`;
}

/** Locks the first candidate that is still free. */
function firstFree(scope: Scope, lock: RelatedLock, want: Sql, last: Sql): Sql {
  return sql`select f.item, f.id from (select x.* from ${want} x order by x.n) f join seen s on s.millrace_id = f.item cross join lateral (
    select 1 from ${table(lock.table)} t where t.id = f.id and ${matching(lock, sql`s`)} and ${whereOf(lock)}
      and ${free(scope, lock, sql`t`, sql`f.token`, sql`f.item`, sql`f`)} for no key update skip locked) l
  where (select count(*) from ${last}) >= 0 limit 1`;
}

/**
 * Row `t` may be taken for main row `item`: it carries our token already (a repetition), or has no live lock and no
 * other owner, or its lock was seen to be dead and is still that lock. A parent takes its children from any owner
 * without a live lock. A row that makes way for a parent is left alone, but for our own expired lock.
 */
function free({ registry, pipeline: p }: Scope, lock: RelatedLock, t: Sql, token: Sql, item: Sql, seen: Sql): Sql {
  const owner = ownerOf(p.name, lock, item);
  const parent = registry
    .yieldsOf(lock.table)
    .some((y) => lock.kind === "children" && y.column === lock.column && y.pipelines.includes(p.name));
  const owned = parent ? sql`true` : sql`(${t}.lock_owner is null or ${t}.lock_owner = ${owner})`;
  return sql`(${t}.lock_token is not distinct from ${token} or (${t}.lock_expires_at is null or ${t}.lock_expires_at < now()) and ${owned}
      or ${seen}.dead and ${t}.lock_token = ${seen}.seen_token)
      and (not ${seen}.yields or ${t}.lock_token is not distinct from ${token} or ${t}.lock_owner = ${owner} and ${t}.lock_expires_at is not null)`;
}

const ownerOf = (pipeline: string, { kind }: RelatedLock, item: Sql): Sql =>
  kind === "children"
    ? text(relatedOwner(pipeline, kind, ""))
    : sql`${text(relatedOwner(pipeline, kind, ""))} || ${item}`;

/** Writes the locks where the main row got everything; at contention, `reserve` leaves the owner on what is free. */
function updateOf({ pipeline: p }: Scope, lock: RelatedLock, got: Sql): Sql {
  const reserve =
    lock.kind === "children" && lock.reserve
      ? sql` or v.result = 'contention' and t.lock_token is distinct from v.token`
      : sql``;
  return sql`update ${table(lock.table)} t set lock_token = case when v.result = 'locked' then v.token end,
    lock_expires_at = case when v.result = 'locked' then v.lock_expires_at end, lock_owner = ${ownerOf(p.name, lock, sql`v.id`)}
  from ${got} g join verdict v on v.id = g.item where t.id = g.id and (v.result = 'locked'${reserve})
  returning t.id, v.id as item, v.result = 'locked' as ok`;
}
