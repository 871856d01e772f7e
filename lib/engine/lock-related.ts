import type { RelatedLock, RelatedLocks } from "../define/locks.ts";
import type { Pipeline } from "../define/pipeline.ts";
import type { Registry } from "../define/registry.ts";
import { MillraceError } from "../errors.ts";
import { type LockRow, lockRelatedSql } from "../sql/lock-related.ts";
import { scopeOf } from "../sql/parts.ts";
import { type RelatedRow, relatedRowsSql } from "../sql/related-rows.ts";
import { inBatch, isDataError } from "./batches.ts";
import { type Held, rowOf } from "./claim.ts";
import type { Ports } from "./ports.ts";
import type { Ending } from "./process.ts";

/** The related rows that a pass has locked: lock name → rows, by id. */
export type Related = Readonly<Record<string, readonly Readonly<Record<string, unknown>>[]>>;

/** A held row with its related rows; or how its pass ends for want of them. */
export type Locked = { readonly held: Held } | { readonly ending: Ending };

/**
 * Locks the related rows that the passes of a batch need: those that need the same locks in one statement. Answers a
 * promise for each, so that nobody waits for another's locks.
 */
export function lockRelated(
  registry: Registry,
  pipeline: Pipeline,
  held: readonly Held[],
  ports: Ports,
): (one: Held) => Promise<Locked> {
  const locked = new Map(held.map((h) => [h, Promise.withResolvers<Locked>()]));
  const settle = (h: Held, result: Locked) => locked.get(h)!.resolve(result);
  const work = async () => {
    const needs = await Promise.all(held.map((h) => needed(h, settle, ports)));
    const groups = new Map<string, { locks: RelatedLocks; held: Held[] }>();
    for (const [n, locks] of needs.entries()) {
      if (locks === undefined) continue;
      // a pick is taken by a statement of its own: two rows of a batch must not pick the same one
      const alone = Object.values(locks).some((lock) => lock.kind === "pick");
      const key = `${held[n]!.state?.name} ${Object.keys(locks).join(" ")} ${alone ? n : ""}`;
      const group = groups.get(key) ?? { locks, held: [] };
      group.held.push(held[n]!);
      groups.set(key, group);
    }
    await Promise.all([...groups.values()].map((g) => lockGroup(registry, pipeline, g.locks, g.held, settle, ports)));
  };
  // whoever has been settled by then keeps the first result
  work().catch((error: unknown) => {
    for (const h of held) settle(h, { ending: { kind: "fail", error } });
  });
  return (one) => locked.get(one)!.promise;
}

type Settle = (held: Held, result: Locked) => void;

/** The locks that a pass needs; undefined: it needs none, or is over, and has been settled. */
async function needed(held: Held, settle: Settle, { reader }: Ports): Promise<RelatedLocks | undefined> {
  const { state, row, now } = held;
  if (state === null || Object.keys(state.locks).length === 0) {
    settle(held, { held });
    return undefined;
  }
  try {
    const names: readonly string[] =
      (await state.spec.decide?.(reader, { row, now } as never)) ?? Object.keys(state.locks);
    const locks = names.map((name): [string, RelatedLock] => {
      const lock = state.locks[name];
      if (lock === undefined)
        throw new MillraceError("LOCK_UNKNOWN", {
          name: state.name,
          lock: name,
          locks: Object.keys(state.locks).join(", "),
        });
      return [name, lock];
    });
    if (locks.length > 0) return Object.fromEntries(locks);
    settle(held, { held: { ...held, related: {} } });
  } catch (error) {
    settle(held, { ending: { kind: "fail", error } });
  }
  return undefined;
}

type Answer = LockRow & Readonly<Record<string, unknown>>;

async function lockGroup(
  registry: Registry,
  pipeline: Pipeline,
  locks: RelatedLocks,
  held: readonly Held[],
  settle: Settle,
  ports: Ports,
): Promise<void> {
  const scope = scopeOf(registry, pipeline);
  const got: { readonly held: Held; readonly answer: Answer }[] = [];
  await inBatch(held, {
    run: (some, patient) =>
      ports.database.run(
        lockRelatedSql(
          scope,
          locks,
          some.map(({ id, token, state }) => ({ id, token, state: state!.name })),
        ),
        { patient },
      ),
    rowOf: ({ id, token }, rows: readonly Answer[]) =>
      rows.find((r) => r.millrace_id === id && r.millrace_token === token),
    settle: async (some, outcomes) => {
      for (const [n, outcome] of outcomes.entries()) {
        const one = some[n]!;
        if ("error" in outcome) settle(one, { ending: failed(outcome.error) });
        else if (outcome.row.millrace_result === "locked") got.push({ held: one, answer: outcome.row });
        else settle(one, { ending: endingOf(pipeline, one, locks, outcome.row) });
      }
    },
  });
  await readRows(locks, got, settle, ports);
}

function endingOf(pipeline: Pipeline, { id }: Held, locks: RelatedLocks, answer: Answer): Ending {
  switch (answer.millrace_result) {
    case "moved":
      return { kind: "release" };
    case "gone": {
      const missing = Object.entries(JSON.parse(answer.millrace_missing) as Record<string, readonly string[]>);
      const [name, ids] = missing[0] ?? ["", []];
      const about = { pipeline: pipeline.name, id, table: locks[name]?.table, ids: ids.join(", ") };
      return { kind: "fail", error: new MillraceError("RELATED_GONE", about) };
    }
    case "contention":
      return { kind: "contention", phase: "lock", missing: missingTables(locks, answer.millrace_missing) };
    default:
      return { kind: "stale", phase: "lock" };
  }
}

function missingTables(locks: RelatedLocks, text: string): readonly string[] {
  const missing = JSON.parse(text) as Record<string, readonly string[]>;
  return Object.entries(missing).map(
    ([name, ids]) => `${locks[name]?.table}${ids.length === 0 ? "" : ` ${ids.join(" ")}`}`,
  );
}

/** Reads the locked rows, one statement a table. Nobody changes them now; one that is missing was taken by force. */
async function readRows(
  locks: RelatedLocks,
  got: readonly { readonly held: Held; readonly answer: Answer }[],
  settle: Settle,
  ports: Ports,
): Promise<void> {
  if (got.length === 0) return;
  const ids = got.map(({ answer }) => JSON.parse(answer.millrace_related) as Record<string, readonly string[]>);
  try {
    const found = await Promise.all(
      Object.entries(locks).map(async ([name, { table }]) => {
        const keys = got.flatMap(({ held }, n) =>
          (ids[n]![name] ?? []).map((id) => ({ item: held.id, token: held.token, id })),
        );
        return { name, rows: await readKeys(table, keys, ports) };
      }),
    );
    for (const [n, { held, answer }] of got.entries()) {
      const related = Object.fromEntries(
        found.map(({ name, rows }) => [name, rows.filter((r) => r.millrace_item === held.id).map(rowOf<RelatedRow>)]),
      );
      const lost = Object.keys(locks).filter((name) => related[name]!.length !== (ids[n]![name] ?? []).length);
      if (lost.length > 0)
        settle(held, {
          ending: { kind: "contention", phase: "lock", missing: lost.map((name) => locks[name]!.table) },
        });
      else
        settle(held, {
          held: { ...held, seen: answer.millrace_seen_due, row: rowOf(answer), now: answer.millrace_now, related },
        });
    }
  } catch (error) {
    // one row that cannot be read must not fail the batch
    if (got.length > 1 && failed(error).kind === "fail")
      await Promise.all(got.map((one) => readRows(locks, [one], settle, ports)));
    else for (const { held } of got) settle(held, { ending: failed(error) });
  }
}

/** Rows of a table; what is too large for one answer is asked for in halves. */
async function readKeys(
  table: string,
  keys: Parameters<typeof relatedRowsSql>[1],
  ports: Ports,
): Promise<readonly RelatedRow[]> {
  if (keys.length === 0) return [];
  try {
    return (await ports.database.run(relatedRowsSql(table, keys), { patient: true })).rows;
  } catch (error) {
    const refused = error instanceof MillraceError && isDataError(error) && error.details["sqlState"] === undefined;
    if (!refused || keys.length === 1) throw error;
    const half = Math.ceil(keys.length / 2);
    return [
      ...(await readKeys(table, keys.slice(0, half), ports)),
      ...(await readKeys(table, keys.slice(half), ports)),
    ];
  }
}

/** A statement that the database refuses will be refused again; anything else passes. */
function failed(error: unknown): Ending {
  return !(error instanceof MillraceError) || isDataError(error)
    ? { kind: "fail", error }
    : { kind: "contention", phase: "lock", missing: [`${error.code}: ${error.message}`] };
}
