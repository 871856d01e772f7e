import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { openTransaction, stopReads } from "../../support/overlap.ts";
import { claimRows, fetchRows, takeRows, untilBlocked } from "../../support/steps.ts";
import { ahead, beat, itemOf, lockOf, queueRows, renewRows, sweepRows } from "../../support/upkeep.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine({ workers: 2 });
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const OVER = "lock_expires_at = now() - interval '100 s'";
const kill = () => engine.query("update millrace.items set alive_until = now() - interval '100 s'");

test.each([
  ["an unknown owner", { lock_owner: "ghosts", lock_token: crypto.randomUUID(), lock_expires_at: "2020-01-01" }],
  ["an owner that no longer wants it, without a token", { lock_owner: "things", status: "checked" }],
  ["an owner that never gets it, for want of a due time", { lock_owner: "things", due_at: null }],
  ["a token that nobody owns", { lock_token: crypto.randomUUID(), lock_expires_at: "2020-01-01" }],
])("only a scan finds a row that no item knows of, with %s", async (_, columns) => {
  const id = await engine.thing(columns);
  expect(await sweepRows(engine)).toMatchObject({ unlocked: 0 });
  expect(await sweepRows(engine, { scan: true })).toMatchObject({ unlocked: 1 });
  expect(await lockOf(engine, id)).toMatchObject({ token: null, owner: null, expires: null });
});

test("a row that its owner keeps for another try is left alone by a scan", async () => {
  const id = await engine.thing({ lock_owner: "things" });
  expect(await sweepRows(engine, { scan: true })).toMatchObject({ unlocked: 0 });
  expect(await lockOf(engine, id)).toMatchObject({ owner: "things" });
});

/** A finished item, so many days old, with its row or without. */
async function finished(days: number, row: boolean): Promise<string> {
  const id = row ? await engine.thing() : crypto.randomUUID();
  await engine.query(
    `insert into millrace.items (item_id, pipeline, state, finished_at)
     values ($1, 'things', 'applied', now() - make_interval(days => $2))`,
    [id, days],
  );
  return id;
}

test("old items are deleted only when their row is gone, and only by a scan", async () => {
  const old = await finished(8, false);
  const young = await finished(6, false);
  const needed = await finished(8, true);
  expect(await sweepRows(engine)).toMatchObject({ deleted: 0 });
  expect(await itemOf(engine, old)).toBeDefined();
  expect(await sweepRows(engine, { scan: true })).toMatchObject({ deleted: 1 });
  expect(await itemOf(engine, old)).toBeUndefined();
  expect(await itemOf(engine, young)).toBeDefined();
  expect(await itemOf(engine, needed)).toBeDefined();
});

test("an item in flight is never deleted", async () => {
  await engine.query(
    "insert into millrace.items (item_id, pipeline, state, lock_token, locked_at, alive_until) values (gen_random_uuid(), 'things', 'queued', gen_random_uuid(), '2020-01-01', '2200-01-01')",
  );
  expect(await sweepRows(engine, { scan: true })).toMatchObject({ deleted: 0 });
});

test("rows and items that somebody has locked are left for the next sweep, without waiting", async () => {
  const [locked, free] = [await engine.thing(), await engine.thing()];
  await takeRows(engine);
  await kill();
  await engine.past(`update things set status = 'checked'`);
  await engine.query(`update things set ${OVER}`);
  await using other = await openTransaction(engine);
  await other.query("select 1 from things where id = $1 for no key update", [locked]);
  expect(await sweepRows(engine)).toMatchObject({ unlocked: 1, ended: 1 });
  expect(await lockOf(engine, free)).toMatchObject({ token: null });
  expect((await lockOf(engine, locked)).token).not.toBeNull();
  expect(await itemOf(engine, locked)).toMatchObject({ finished: false });
  await other.commit();
  expect(await sweepRows(engine)).toMatchObject({ unlocked: 1, ended: 1 });
});

test("an item that somebody has locked is left for the next sweep, without waiting", async () => {
  await engine.thing();
  await queueRows(engine);
  await kill();
  await engine.past("delete from things");
  await finished(8, false);
  await using other = await openTransaction(engine);
  await other.query("select 1 from millrace.items for update");
  expect(await sweepRows(engine, { scan: true })).toMatchObject({ ended: 0, deleted: 0 });
  await other.commit();
  expect(await sweepRows(engine, { scan: true })).toMatchObject({ ended: 1, deleted: 1 });
});

/** A row whose lock is over and which no state wants, so that a sweep would clear it. */
async function sweepable(): Promise<{ id: string; token: string }> {
  await engine.thing();
  const [key] = await queueRows(engine);
  await kill();
  await engine.past("update things set status = 'checked'");
  await engine.query(`update things set ${OVER}`);
  return key!;
}

/** A sweep that has its snapshot, but looks at the table only after `meanwhile`. */
async function sweepAfter(meanwhile: () => Promise<unknown>, { scan = false, table = "things" } = {}) {
  await using reads = await stopReads(engine, table);
  const sweeping = sweepRows(engine, { scan });
  await untilBlocked(engine);
  await meanwhile();
  await reads.goOn();
  return sweeping;
}

async function committed(work: (run: Awaited<ReturnType<typeof openTransaction>>["run"]) => Promise<unknown>) {
  await using other = await openTransaction(engine);
  await work(other.run);
  await other.commit();
}

test.each([false, true])("a lock that was claimed since the snapshot is not cleared (scan: %s)", async (scan) => {
  const key = await sweepable();
  let token: string | undefined;
  const claim = () =>
    committed(async (run) => {
      const [claimed] = await claimRows(engine, [key], { run });
      token = claimed!.token;
    });
  expect(await sweepAfter(claim, { scan })).toMatchObject({ unlocked: 0, ended: 0 });
  expect(await lockOf(engine, key.id)).toMatchObject({ token, expires: ahead(30) });
  expect(await itemOf(engine, key.id)).toMatchObject({ state: "processing", token });
});

test("a lock that was renewed since the snapshot is not cleared", async () => {
  const key = await sweepable();
  const [claimed] = await claimRows(engine, [key]);
  await kill();
  await engine.query(`update things set ${OVER}`);
  expect(await sweepAfter(() => committed((run) => renewRows(engine, [claimed!], run)))).toMatchObject({
    unlocked: 0,
    ended: 0,
  });
  expect(await lockOf(engine, key.id)).toMatchObject({ token: claimed!.token, expires: ahead(30) });
  expect(await itemOf(engine, key.id)).toMatchObject({ state: "processing", alive: ahead(20) });
});

test("a lock that a heartbeat extends, still uncommitted, is not cleared", async () => {
  const key = await sweepable();
  await engine.query("update millrace.items set alive_until = now() + interval '1 min'");
  await using other = await openTransaction(engine);
  expect(await beat(engine, "things", other.run)).toMatchObject({ extended: 1 });
  expect(await sweepRows(engine, { scan: true })).toMatchObject({ unlocked: 0, ended: 0 });
  await other.commit();
  expect(await lockOf(engine, key.id)).toMatchObject({ token: key.token, expires: ahead(30) });
});

test("a row that its owner wants again since the snapshot is not cleared", async () => {
  const { id, token } = await sweepable();
  const change = () => engine.query("update things set to_be_deleted = true");
  expect(await sweepAfter(change)).toMatchObject({ unlocked: 0, ended: 0 });
  expect(await lockOf(engine, id)).toMatchObject({ token });
});

test("an item that was fetched again since the snapshot is not ended", async () => {
  const id = await engine.thing();
  await queueRows(engine);
  await kill();
  await engine.query("update things set lock_token = null, lock_owner = null, lock_expires_at = null");
  let token: string | undefined;
  const fetch = () =>
    committed(async (run) => {
      ({ token } = await fetchRows(engine, { run }));
    });
  expect(await sweepAfter(fetch, { table: "millrace.items" })).toMatchObject({ ended: 0 });
  expect(await itemOf(engine, id)).toMatchObject({ state: "locked", token, finished: false });
});
