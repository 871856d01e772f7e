import { sql } from "kysely";
import { relatedTables } from "../define/registry.ts";
import { TOLD } from "./deleting.ts";
import { patchColumns, withNows } from "./insert.ts";
import { oursByOwner, reservedFor, reservingLocks } from "./owned.ts";
import { EACH, pipelineOf, rows, type Scope, type Sql, table, text, UNLOCK } from "./parts.ts";
import { dueNow } from "./request.ts";

/** What an answer says of the related rows of one table: every row that the pass has locked, changed or not. */
export interface RelatedGroup {
  readonly table: string;
  readonly rows: readonly {
    /** Main row and its token. */
    readonly item: string;
    readonly token: string;
    readonly id: string;
    readonly set: Readonly<Record<string, unknown>>;
    readonly nows: readonly string[];
    readonly delete: boolean;
  }[];
}

/** What answers want of rows of one table that nobody needs to hold. */
export interface RequestGroup {
  readonly table: string;
  readonly rows: readonly {
    readonly item: string;
    readonly token: string;
    readonly id: string;
    readonly set: Readonly<Record<string, unknown>>;
  }[];
}

/** A table whose rows an ending touches beside the main row, as CTEs: l_ the rows locked, what is written to them. */
export interface Touched {
  readonly table: string;
  /** item, token, id, set, delete, given (the answer names it), ask (a request). */
  readonly entries: Sql;
  /** The entries that were locked, with `held`: it carries the main row's token. */
  readonly locked: Sql;
  /** The CTEs that lock the rows in id order, after `last`; `main` takes its place where the table is the main one. */
  readonly lock: (last: Sql, main?: Sql) => readonly Sql[];
  /** Of the main table: what is locked before the main row. */
  readonly below: Sql;
  readonly writes: readonly Sql[];
  /** Selects the pipelines to hint for main row `w`: rows that are ready and due now. */
  readonly hints: readonly Sql[];
  /** The same for a repetition, which finds everything written. */
  readonly again: readonly Sql[];
}

/**
 * The tables around the main rows of an ending, by name. Related rows come as the answer gives them and from
 * `items.related`; they are unlocked by the main row's token, and those that an attempt which died had locked by their
 * owner, since the main row is ours now. Children that were reserved for the main row are let go when it does not wait
 * for them any more. With `answers` there is a CTE `ok` of the main rows whose answer is accepted; without, `main` says
 * by `keep` which rows go on waiting.
 */
export function touchedTables(
  scope: Scope,
  related: readonly RelatedGroup[],
  requests: readonly RequestGroup[],
  answers: boolean,
): readonly Touched[] {
  const names = new Set([
    ...relatedTables(scope.pipeline),
    ...related.map((g) => g.table),
    ...requests.map((g) => g.table),
  ]);
  return [...names].sort().map((name, n) => {
    const given = related.find((g) => g.table === name)?.rows ?? [];
    const asked = requests.find((g) => g.table === name)?.rows ?? [];
    return touchedTable(scope, name, n, given, asked, answers);
  });
}

function touchedTable(
  scope: Scope,
  name: string,
  n: number,
  given: RelatedGroup["rows"],
  asked: RequestGroup["rows"],
  answers: boolean,
): Touched {
  const { registry, pipeline: p } = scope;
  const [e, l, u, d, q] = ["e", "l", "u", "d", "q"].map((prefix) => sql.id(`${prefix}_${n}`)) as [
    Sql,
    Sql,
    Sql,
    Sql,
    Sql,
  ];
  const below = sql.id(`below_${n}`);
  const t = table(name);
  const main = name === p.table;
  const own = registry.of(name);
  const readyFor = own.length === 0 ? sql`null::text` : pipelineOf(own);
  const ours = oursByOwner(scope, name, sql`r.item`);
  const reserved = reservedFor(scope, name, sql`r.item`);
  const waitsNoMore = answers
    ? sql`ok.id is not null`
    : sql`exists (select 1 from main m where m.id = r.item and m.token = r.token and not m.keep)`;
  const letGo = reserved === null ? sql`` : sql` or ${waitsNoMore} and ${reserved}`;
  const deletes = given.some((r) => r.delete);
  const columns = [...new Set(given.flatMap((r) => [...Object.keys(r.set), ...r.nows]))].sort();
  const patch = sql`jsonb_populate_record(t, case when ok.id is null or r.set is null then '{}'::jsonb else r.set end) p`;
  const set = columns.length === 0 ? sql`` : sql`${patchColumns(columns, patch)}, `;
  const intents = [...new Set(asked.flatMap((r) => Object.keys(r.set)))].sort();
  const wish = intents.length === 0 ? sql`` : sql`${patchColumns(intents, sql`jsonb_populate_record(t, r.set) p`)}, `;
  const ok = answers ? sql`left join ok on ok.id = r.item and ok.token = r.token` : sql``;
  const stays = answers && deletes ? sql`and not (r.delete and ok.id is not null)` : sql``;
  // a row that is asked for as well is written once, by the request: of two writes in one statement only one takes effect
  const alsoAsked =
    asked.length > 0
      ? sql`and not (ok.id is not null and exists (select 1 from ${e} a where a.ask and a.id = r.id))`
      : sql``;
  const mine = sql`coalesce(${ours ?? sql`false`} or ${reserved ?? sql`false`}, false)`;
  const unlockMine =
    ours === null && reserved === null
      ? sql``
      : sql`${sql.join(
          ["lock_token", "lock_owner", "lock_expires_at"].map(
            (c) => sql`${sql.id(c)} = case when not ${mine} then ${sql.ref(`t.${c}`)} end`,
          ),
        )}, `;
  const writes: Sql[] = [];
  const hints: Sql[] = [];
  const again: Sql[] = [];
  if (given.length > 0 || ours !== null) {
    writes.push(sql`${u} as (
  update ${t} t set ${set}${UNLOCK} from ${l} r ${ok}
  where not r.ask and t.id = r.id ${stays} ${alsoAsked} and (t.lock_token = r.token or exists (select 1 from main m where m.id = r.item and m.token = r.token) and ${ours ?? sql`false`}${letGo})
  returning t.id, r.item, t.due_at, ${readyFor} as ready_for)`);
    hints.push(sql`select u.ready_for from ${u} u where u.item = w.id and u.due_at <= now()`);
    again.push(
      sql`select ${readyFor} from ${e} r join ${t} t on t.id = r.id where not r.ask and r.item = w.id and t.due_at <= now() and t.lock_token is null`,
    );
  }
  if (deletes)
    writes.push(
      sql`${d} as (delete from ${t} t using ${l} r join ok on ok.id = r.item and ok.token = r.token where r.delete and t.id = r.id and t.lock_token = r.token and ${TOLD})`,
    );
  if (asked.length > 0) {
    writes.push(sql`${q} as (
  update ${t} t set ${wish}${unlockMine}due_at = ${dueNow} from ${l} r join ok on ok.id = r.item and ok.token = r.token
  where r.ask and t.id = r.id returning t.id, r.item, ${readyFor} as ready_for)`);
    hints.push(sql`select q.ready_for from ${q} q where q.item = w.id`);
    again.push(sql`select ${readyFor} from ${e} r join ${t} t on t.id = r.id where r.ask and r.item = w.id`);
  }
  const held = main ? sql`false` : sql`t.lock_token = r.token or ${ours ?? sql`false`} or ${reserved ?? sql`false`}`;
  return {
    table: name,
    entries: e,
    locked: l,
    below,
    lock: (last, mainCte) => {
      const some = (cte: Sql, after: Sql, which: Sql) => sql`${cte} as materialized (
  select r.*, l.held from (select * from ${e} where ${which} order by id) r cross join lateral (
    select coalesce(t.lock_token = r.token, false) as held from ${t} t where t.id = r.id and (r.ask or ${held}) ${deletes ? sql`for update` : sql`for no key update`}) l
  where (select count(*) from ${after}) >= 0)`;
      const all = sql`${e} as materialized (${entries(scope, name, given, asked)})`;
      if (mainCte === undefined) return [all, some(l, last, sql`true`)];
      // requests for rows of the main table, around the one main row
      const above = sql.id(`above_${n}`);
      return [
        all,
        some(below, last, sql`id < (select w.id from w)`),
        mainCte,
        some(above, sql`main`, sql`id >= (select w.id from w)`),
        sql`${l} as materialized (select * from ${below} union all select * from ${above})`,
      ];
    },
    writes,
    hints,
    again,
  };
}

/** The rows of one table: what the answers give, what else is on the items' lists, what is asked of others. */
function entries({ pipeline: p }: Scope, name: string, given: RelatedGroup["rows"], asked: RequestGroup["rows"]): Sql {
  const parts: Sql[] = [];
  const related = rows(given, {
    item: "uuid",
    token: "uuid",
    id: "uuid",
    set: "jsonb",
    nows: "jsonb",
    delete: "boolean",
  });
  if (given.length > 0)
    parts.push(
      sql`select x.item, x.token, x.id, ${withNows(sql`x.set`, sql`x.nows`)} as set, x.delete, true as given, false as ask from ${related} x`,
    );
  // the range on `ordinal` is what the planner expects one row of, as of every list that travels
  if (relatedTables(p).includes(name)) {
    const known =
      given.length === 0
        ? sql`true`
        : sql`not exists (select 1 from ${related} x where x.item = w.id and x.id = cast(k.id as uuid))`;
    parts.push(sql`select w.id as item, w.token, cast(k.id as uuid) as id, null::jsonb as set, false as delete, false as given, false as ask from w cross join lateral (
    select i.related from millrace.items i where i.item_id = w.id and i.pipeline = ${text(p.name)} ${EACH}) i cross join lateral jsonb_array_elements_text(i.related -> ${text(name)}) with ordinality k(id, ordinal) where k.ordinal between 1 and 1000000 and ${known}`);
  }
  for (const { column } of reservingLocks(p, name))
    parts.push(sql`select w.id as item, w.token, c.id, null::jsonb as set, false as delete, false as given, false as ask from w cross join lateral (
    select t.id from ${table(name)} t where ${sql.ref(`t.${column}`)} = w.id and t.lock_owner = ${text(p.name)} and t.lock_token is null ${EACH}) c`);
  if (asked.length > 0)
    parts.push(
      sql`select x.item, x.token, x.id, x.set, false as delete, false as given, true as ask from ${rows(asked, { item: "uuid", token: "uuid", id: "uuid", set: "jsonb" })} x`,
    );
  return sql.join(
    parts,
    sql`
  union all `,
  );
}

/**
 * Locks every row that an ending writes: tables by name, ids ascending. `main` builds the CTE of the main rows.
 * Answers the CTEs, and the last that locks.
 */
export function lockAll(
  { pipeline: p }: Scope,
  touched: readonly Touched[],
  main: (last: Sql) => Sql,
): { readonly locks: readonly Sql[]; readonly last: Sql } {
  const locks: Sql[] = [];
  let last: Sql = sql`w`;
  for (const t of touched.filter((t) => t.table < p.table)) {
    locks.push(...t.lock(last));
    last = t.locked;
  }
  const own = touched.find((t) => t.table === p.table);
  locks.push(...(own === undefined ? [main(last)] : own.lock(last, main(own.below))));
  last = own === undefined ? sql`main` : own.locked;
  for (const t of touched.filter((t) => t.table > p.table)) {
    locks.push(...t.lock(last));
    last = t.locked;
  }
  return { locks, last };
}
