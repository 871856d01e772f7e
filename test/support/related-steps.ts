import { type ApplyRow, applySql, type Beside } from "../../lib/sql/apply.ts";
import { type LockRow, lockRelatedSql } from "../../lib/sql/lock-related.ts";
import { scopeOf } from "../../lib/sql/parts.ts";
import { type SweepRow, sweepSql } from "../../lib/sql/sweep.ts";
import type { RelatedGroup, RequestGroup } from "../../lib/sql/touched.ts";
import type { TestEngine } from "./engine-on.ts";
import type { RelatedEngine } from "./related-tables.ts";
import { answer, type Claimed, claimRows, fetchRows, type Run } from "./steps.ts";

/** Makes a row due, and no other, and takes it for a pipeline. */
export async function takeRow(engine: TestEngine, pipeline: string, id: string): Promise<Claimed> {
  const { table } = engine.registry.get(pipeline);
  await engine.query(
    `update ${table} set due_at = case when id = $1 then now() - interval '1 s' else now() + interval '1 h' end where id = $1 or lock_token is null`,
    [id],
  );
  const { ids, token } = await fetchRows(engine, { pipeline });
  if (!ids.includes(id)) throw new Error(`row ${id} was not fetched`);
  const [claimed] = await claimRows(engine, [{ id, token }], { pipeline, alone: true });
  return claimed!;
}

export interface LockAnswer {
  readonly result: LockRow["millrace_result"];
  readonly related: Readonly<Record<string, readonly string[]>>;
  readonly missing: Readonly<Record<string, readonly string[]>>;
  readonly row: Readonly<Record<string, unknown>>;
}

/** Locks what the state of claimed rows wants; `locks` names some of its locks. */
export async function lockRows(
  engine: TestEngine,
  pipeline: string,
  claimed: readonly Claimed[],
  options: { readonly run?: Run; readonly locks?: readonly string[] } = {},
): Promise<LockAnswer[]> {
  const p = engine.registry.get(pipeline);
  const state = p.states.find((s) => s.name === claimed[0]!.state)!;
  const locks = Object.fromEntries(
    Object.entries(state.locks).filter(([name]) => options.locks?.includes(name) ?? true),
  );
  const rows = await (options.run ?? engine.run)(
    lockRelatedSql(
      scopeOf(engine.registry, p),
      locks,
      claimed.map(({ id, token }) => ({ id, token, state: state.name })),
    ),
  );
  return claimed.map(({ id, token }) => {
    const row = rows.find((r) => r.millrace_id === id && r.millrace_token === token)!;
    return {
      result: row.millrace_result,
      related: JSON.parse(row.millrace_related),
      missing: JSON.parse(row.millrace_missing),
      row,
    };
  });
}

/** Writes the same answer for claimed rows, and what it says of other rows. */
export function applyBeside(
  engine: TestEngine,
  pipeline: string,
  claimed: readonly Claimed[],
  changes: Parameters<typeof answer>[1],
  beside: Beside,
): Promise<readonly ApplyRow[]> {
  const answers = claimed.map((c) => answer(c, changes));
  return engine.run(applySql(scopeOf(engine.registry, engine.registry.get(pipeline)), answers, beside));
}

/** The part of an answer that says: all members of the active group must be locked still. */
export const COMPLETE = { locks: ["active.members"] };

/** A group whose pass holds all of its members. */
export async function lockedGroup(engine: RelatedEngine, size: number) {
  const { id, members } = await engine.group(size);
  const group = await takeRow(engine, "groups", id);
  await lockRows(engine, "groups", [group]);
  return { id, members, group };
}

/** A task whose pass holds the member that it shares. */
export async function lockedTask(engine: RelatedEngine) {
  const { members } = await engine.group(1);
  const id = await engine.insert("tasks", { member_id: members[0]!, status: "ending" });
  const claimed = await takeRow(engine, "endings", id);
  await lockRows(engine, "endings", [claimed]);
  return { id, member: members[0]!, claimed };
}

export interface Swept {
  /** Rows by table, where there were any. */
  readonly unlocked: Readonly<Record<string, number>>;
  readonly ended: number;
  readonly left: number;
}
/** What a sweep says that has found nothing. */
export const NOTHING: Swept = { unlocked: {}, ended: 0, left: 0 };

/** One sweep of all tables. */
export async function sweepTables(engine: TestEngine, scan: boolean): Promise<Swept> {
  const rows: readonly SweepRow[] = await engine.run(sweepSql(engine.registry, scan));
  const unlocked = rows.filter((r) => r.unlocked > 0).map((r) => [r.table, r.unlocked] as const);
  return { unlocked: Object.fromEntries(unlocked), ended: rows[0]!.ended, left: rows[0]!.left };
}

/** What an answer says of locked rows: unchanged, unless `changes` says more. */
export function relatedGroup(
  table: string,
  { id, token }: Claimed,
  ids: readonly string[],
  changes: Partial<RelatedGroup["rows"][number]> = {},
): RelatedGroup {
  return {
    table,
    rows: ids.map((related) => ({ item: id, token, set: {}, nows: [], delete: false, ...changes, id: related })),
  };
}

/** What an answer asks of other rows. */
export const requestGroup = (
  table: string,
  { id, token }: Claimed,
  ids: readonly string[],
  set: Readonly<Record<string, unknown>> = {},
): RequestGroup => ({ table, rows: ids.map((other) => ({ item: id, token, id: other, set })) });

/** The lock of a row. */
export async function lockOf(engine: TestEngine, table: string, id: string) {
  const [row] = await engine.query<{ token: string | null; owner: string | null; live: boolean; held: boolean }>(
    `select lock_token as token, lock_owner as owner, coalesce(lock_expires_at > now(), false) as live, lock_expires_at is not null as held from ${table} where id = $1`,
    [id],
  );
  return row!;
}

/** Holds a row under a lock of somebody's making. */
export async function hold(
  engine: TestEngine,
  table: string,
  id: string,
  lock: { readonly owner?: string | null; readonly token?: string | null; readonly seconds?: number | null } = {},
): Promise<void> {
  const { owner = null, token = crypto.randomUUID(), seconds = 30 } = lock;
  await engine.query(
    `update ${table} set lock_owner = $2, lock_token = $3, lock_expires_at = case when $4::float8 is null then null else now() + make_interval(secs => $4) end where id = $1`,
    [id, owner, token, seconds],
  );
}

export const FREE = { token: null, owner: null, live: false, held: false };
