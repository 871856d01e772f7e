import { sql } from "kysely";
import type { Pipeline } from "../../lib/index.ts";
import { resetSql } from "../../lib/sql/end.ts";
import { lockRelatedSql } from "../../lib/sql/lock-related.ts";
import { scopeOf } from "../../lib/sql/parts.ts";
import { relatedRowsSql } from "../../lib/sql/related-rows.ts";
import { statement } from "../../lib/sql/statement.ts";
import { TABLES, type TableName } from "./pipelines.ts";
import { type Actor, anyPipeline, type Held, type Related, send, sendOnce } from "./world.ts";

const BATCH = 4;
type Ids = Readonly<Record<string, readonly string[]>>;

/** Locks what held rows of one state want, once for each of them; rows of a state that wants nothing are left alone. */
export async function lockRelated(actor: Actor): Promise<void> {
  const { world, random } = actor;
  const p = anyPipeline(actor, (one) => one.states.some((s) => Object.keys(s.locks).length > 0));
  const held = world.held.get(p.name)!.filter((h) => h.related === undefined && h.state !== null);
  if (held.length === 0) return;
  const { state: name } = random.pick(held);
  const state = p.states.find((s) => s.name === name)!;
  const locks = state.locks;
  const alone = Object.values(locks).some((lock) => lock.kind === "pick");
  const batch = random.some(
    held.filter((h) => h.state === state.name),
    alone ? 1 : BATCH,
  );
  for (const h of batch) h.related = null;
  // a stale one, and one twice
  const stale = batch.filter(() => random.percent(10)).map((h) => ({ ...h, token: crypto.randomUUID() }));
  const doubled = alone ? batch : [...batch, ...batch.filter(() => random.percent(10)), ...stale];
  const keys = doubled.map(({ id, token }) => ({ id, token, state: state.name }));
  const scope = scopeOf(world.engine.registry, p);
  const answers = await send(actor, () => lockRelatedSql(scope, locks, random.some(keys, keys.length)));
  const now = Date.now();
  for (const h of batch) {
    const rows = answers.flatMap((a) => a.rows.filter((r) => r.millrace_id === h.id && r.millrace_token === h.token));
    for (const row of rows) world.tally.add(`lock ${row.millrace_result}`);
    const locked = rows.filter((r) => r.millrace_result === "locked");
    if (locked.length === 0) {
      // an attempt whose answer was lost may have locked them: the ending frees what is on the list
      if (answers.every((a) => !a.failed && !a.unanswered)) await nothingLocked(actor, p, h);
      if (rows.some((r) => r.millrace_result === "contention") && random.percent(70)) await giveBack(actor, p, h);
      continue;
    }
    const [a, b] = [locked[0]!, locked.at(-1)!];
    const ids = JSON.parse(a.millrace_related) as Ids;
    // at the same moment two sendings may pick a row each; both are on the list, and every ending frees both
    if (b.millrace_related !== a.millrace_related && alone) world.tally.add("lock picked two");
    const until = Math.min(...locked.map((r) => new Date(r["lock_expires_at"] as string | Date).getTime()));
    const related = await read(actor, p, h, state.name, ids);
    if (related === undefined) continue;
    h.seen = a.millrace_seen_due;
    h.related = related;
    world.ledger.locked(
      Object.values(related).flatMap(({ rows: r }) =>
        r.map(({ id }) => ({ id, token: h.token, item: h.id, at: now, until })),
      ),
    );
  }
}

/** The locked rows as they are now; undefined where some were lost since. */
async function read(actor: Actor, p: Pipeline, h: Held, state: string, ids: Ids): Promise<Related | undefined> {
  const { world, sender } = actor;
  const related: Record<string, Related[string]> = {};
  for (const [name, lock] of Object.entries(p.states.find((s) => s.name === state)!.locks)) {
    const wanted = ids[name] ?? [];
    const keys = wanted.map((id) => ({ item: h.id, token: h.token, id }));
    const { rows } = keys.length === 0 ? { rows: [] } : await sendOnce(world, sender, relatedRowsSql(lock.table, keys));
    if (rows.length !== wanted.length) {
      world.tally.add("lock lost at once");
      return undefined;
    }
    related[name] = {
      table: lock.table as TableName,
      children: lock.kind === "children",
      rows: rows.map((r) => ({ id: String(r["id"]), busy: Number(r["busy"] ?? 0) })),
    };
  }
  return related;
}

/** As a worker does at contention: the owner stays, and children make way. */
async function giveBack(actor: Actor, p: Pipeline, h: Held): Promise<void> {
  const { world } = actor;
  const { id, token, seen } = h;
  const held = world.held.get(p.name)!;
  if (held.includes(h)) held.splice(held.indexOf(h), 1);
  const scope = scopeOf(world.engine.registry, p);
  const answers = await send(actor, () => resetSql(scope, [{ id, token, seen, reason: "contention", keep: true }]));
  for (const { rows, unanswered, sentAt, answeredAt } of answers) {
    const result = rows[0]?.result ?? "none";
    world.tally.add(`reset ${result}`);
    world.ledger.sent(p.name, id, token, { kind: "reset", sentAt, answeredAt, result, unanswered });
  }
}

/** All or none: a row that did not get its related rows has none of them. */
async function nothingLocked({ world, sender }: Actor, p: Pipeline, { id, token }: Held): Promise<void> {
  const found = TABLES.filter((t) => t !== p.table).map(
    (t) =>
      sql`select t.id, cast(${sql.lit(t)} as text) as name from ${sql.table(t)} t where t.lock_token = cast(cast(${token} as text) as uuid)`,
  );
  const query = sql<{ id: string; name: string }>`${sql.join(found, sql` union all `)}`;
  for (const row of (await sendOnce(world, sender, statement("plain", "look", query))).rows)
    world.errors.push(`lock ${p.name}: ${id} was refused, but ${row.name} ${row.id} is locked`);
}

/** A related lock that is alive stands on the list of its item, or nobody would renew it. */
export async function lookAtLists({ world, sender }: Actor): Promise<void> {
  const found = world.engine.registry.lockedTables.flatMap((table) =>
    world.engine.registry.locksOn(table).map(({ pipeline, lock }) => {
      const owner =
        lock.kind === "children"
          ? sql`t.lock_owner = ${sql.lit(pipeline.name)} and m.id = ${sql.ref(`t.${lock.column}`)}`
          : sql`t.lock_owner = ${sql.lit(`${pipeline.name}:`)} || m.id`;
      return sql`select t.id, m.id as item, cast(${sql.lit(table)} as text) as name from ${sql.table(table)} t join ${sql.table(pipeline.table)} m on ${owner} and m.lock_token = t.lock_token
        left join millrace.items i on i.item_id = m.id and i.pipeline = ${sql.lit(pipeline.name)}
        where t.lock_token is not null and not coalesce(jsonb_exists(i.related -> ${sql.lit(table)}, t.id::text), false)`;
    }),
  );
  const query = sql<{ id: string; item: string; name: string }>`${sql.join(found, sql` union all `)}`;
  for (const row of (await sendOnce(world, sender, statement("plain", "lists", query))).rows)
    world.errors.push(`${row.name} ${row.id} is locked for ${row.item}, and not on its list`);
}
