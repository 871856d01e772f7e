import type { Pipeline } from "../../lib/index.ts";
import { applySql } from "../../lib/sql/apply.ts";
import { type ClaimRow, claimSql } from "../../lib/sql/claim.ts";
import { resetSql } from "../../lib/sql/end.ts";
import { fetchSql } from "../../lib/sql/fetch.ts";
import { lockRelatedSql } from "../../lib/sql/lock-related.ts";
import { resumeSql } from "../../lib/sql/operate.ts";
import { scopeOf } from "../../lib/sql/parts.ts";
import { sweepSql } from "../../lib/sql/sweep.ts";
import type { RelatedGroup } from "../../lib/sql/touched.ts";
import { insertMissing } from "./outside.ts";
import { seededRandom } from "./random.ts";
import { sendOnce, type World } from "./world.ts";

/** What is left when nobody does anything any more. All of it must be 0. */
export interface Remains {
  /** Rows with any lock column set. */
  readonly locked: number;
  /** Items that are not finished. */
  readonly inFlight: number;
  /** Items whose list of related rows is not empty. */
  readonly related: number;
  /** Rows that are ready and due, or were made due and never processed. */
  readonly waiting: number;
}

const MOST_ROUNDS = 40;
const LONG_SECONDS = 3600;

/**
 * Faults are over: lets locks run out, sweeps, and processes what is due, until nothing is left or it takes too long.
 */
export async function comeToRest(world: World): Promise<Remains & { readonly rounds: number }> {
  const { engine } = world;
  const { pipelines } = engine.registry;
  const sender = world.senders[0]!;
  for (const p of pipelines) await sendOnce(world, sender, resumeSql(p.name));
  await insertMissing({ world, sender, random: seededRandom(1) });
  for (const table of engine.registry.tables)
    await engine.admin(`update ${table} set due_at = now() where due_at is not null`);
  for (let rounds = 1; ; rounds++) {
    await letTimePass(world);
    await sendOnce(world, sender, sweepSql(engine.registry, true));
    // parents first: their children make way for them
    for (const p of [...pipelines].sort((a, b) => a.yieldTo.length - b.yieldTo.length)) await processDue(world, p);
    const remains = await whatRemains(world);
    const quiet = remains.locked + remains.inFlight + remains.related + remains.waiting === 0;
    if (quiet || rounds === MOST_ROUNDS) return { ...remains, rounds };
  }
}

async function letTimePass({ engine }: World): Promise<void> {
  for (const table of engine.registry.lockedTables)
    await engine.admin(
      `update ${table} set lock_expires_at = now() - interval '1 hour' where lock_expires_at is not null`,
    );
  await engine.admin(
    "update millrace.items set alive_until = now() - interval '1 hour' where finished_at is null and alive_until is not null",
  );
  // what backs off or was reset has waited long enough
  for (const table of engine.registry.tables)
    await engine.admin(
      `update ${table} set due_at = now() where due_at > now() and due_at < now() + interval '10 minutes'`,
    );
}

/** A fetcher and a worker without faults; every row is due again in an hour. */
async function processDue(world: World, p: Pipeline): Promise<void> {
  const sender = world.senders[0]!;
  const scope = scopeOf(world.engine.registry, p);
  const token = crypto.randomUUID();
  const [fetched] = (await sendOnce(world, sender, fetchSql(scope, { token, accepted: [], scheduled: true }))).rows;
  const ids = JSON.parse(fetched?.ids ?? "[]") as string[];
  if (ids.length === 0) return;
  const keys = ids.map((id) => ({ id, token, next: crypto.randomUUID() }));
  const claimed = (await sendOnce(world, sender, claimSql(p, keys, "the last worker", { alone: true }))).rows;
  for (const row of claimed.filter((r) => r.millrace_result === "ours")) await passOver(world, p, row);
}

/** Locks what the row wants, and applies; what waits for a row that is not there is let go. */
async function passOver(world: World, p: Pipeline, row: ClaimRow): Promise<void> {
  const sender = world.senders[0]!;
  const scope = scopeOf(world.engine.registry, p);
  const { millrace_id: id, millrace_token: token, millrace_state: state } = row;
  let seen = row.millrace_seen_due;
  const locks = p.states.find((s) => s.name === state)?.locks ?? {};
  const related: RelatedGroup[] = [];
  if (state !== null && Object.keys(locks).length > 0) {
    const [answer] = (await sendOnce(world, sender, lockRelatedSql(scope, locks, [{ id, token, state }]))).rows;
    world.tally.add(`rest lock ${answer?.millrace_result}`);
    const nowhere = answer?.millrace_result === "gone" || Object.values(locks).some((lock) => lock.kind === "pick");
    if (answer?.millrace_result === "locked") {
      seen = answer.millrace_seen_due;
      for (const [name, list] of Object.entries(JSON.parse(answer.millrace_related) as Record<string, string[]>))
        related.push({
          table: locks[name]!.table,
          rows: list.map((one) => ({ item: id, token, id: one, set: {}, nows: [], delete: false })),
        });
    } else if (!nowhere) {
      await sendOnce(world, sender, resetSql(scope, [{ id, token, seen, reason: "contention", keep: true }]));
      return;
    }
  }
  const item = { id, token, seen, set: {}, nows: [], delete: false, due: LONG_SECONDS, due_by_default: false };
  await sendOnce(world, sender, applySql(scope, [item], { related }));
}

async function whatRemains({ engine }: World): Promise<Remains> {
  const { registry } = engine;
  const count = async (from: string) =>
    Number((await engine.admin<{ n: string }>(`select count(*) as n from ${from}`))[0]!.n);
  let locked = 0;
  let waiting = 0;
  for (const table of registry.lockedTables) {
    const held = "t.lock_token is not null or t.lock_owner is not null or t.lock_expires_at is not null";
    locked += await count(`${table} t where ${held}`);
    for (const p of registry.of(table)) {
      const ready = p.states.map((s) => `(${s.ready.aliased})`).join(" or ");
      waiting += await count(`${table} t where (${ready}) and t.due_at < now() + interval '10 minutes'`);
    }
  }
  const inFlight = await count("millrace.items where finished_at is null");
  return { locked, waiting, inFlight, related: await count("millrace.items where related is not null") };
}
