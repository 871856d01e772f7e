import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { openTransaction, stopReads } from "../../support/overlap.ts";
import { claimRows, fetchRows, takeRows, untilBlocked } from "../../support/steps.ts";
import { ago, ahead, beat, fetchKeys, itemOf, lockOf, queueRows } from "../../support/upkeep.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const expiresIn = (seconds: number) =>
  engine.query("update things set lock_expires_at = now() + make_interval(secs => $1) where lock_token is not null", [
    seconds,
  ]);
const aliveFor = (seconds: number) =>
  engine.query("update millrace.items set alive_until = now() + make_interval(secs => $1)", [seconds]);

test("the lock of a queued item is extended when it is near its end", async () => {
  const id = await engine.thing();
  const [key] = await queueRows(engine);
  await expiresIn(12);
  expect(await beat(engine)).toMatchObject({
    in_flight: 1,
    watched: 1,
    extended: 1,
    lost: 0,
    late: 0,
    takeable: [],
    resend: [],
  });
  expect(await lockOf(engine, id)).toMatchObject({ token: key!.token, owner: "things", expires: ahead(30) });
  expect(await beat(engine)).toMatchObject({ watched: 1, extended: 0 });
});

test("a lock that is not near its end is left alone", async () => {
  const id = await engine.thing();
  await queueRows(engine);
  await expiresIn(21);
  expect(await beat(engine)).toMatchObject({ watched: 1, extended: 0 });
  expect(await lockOf(engine, id)).toMatchObject({ expires: ahead(21) });
});

test("an item in process is extended no further than a tick beyond its lease", async () => {
  const id = await engine.thing();
  await takeRows(engine);
  await aliveFor(8);
  await expiresIn(10);
  expect(await beat(engine)).toMatchObject({ extended: 1 });
  expect(await lockOf(engine, id)).toMatchObject({ expires: ahead(18) });
  expect(await itemOf(engine, id)).toMatchObject({ alive: ahead(8) });
});

test("a heartbeat never shortens a lock", async () => {
  const id = await engine.thing();
  await takeRows(engine);
  await aliveFor(2.5);
  await expiresIn(14);
  const [before] = await engine.query("select lock_expires_at from things where id = $1", [id]);
  await beat(engine);
  expect(await engine.query("select lock_expires_at from things where id = $1", [id])).toEqual([before]);
});

test("a lock that has expired but is still the item's is late, and extended", async () => {
  const id = await engine.thing();
  await queueRows(engine);
  await expiresIn(-5);
  expect(await beat(engine)).toMatchObject({ watched: 1, extended: 1, late: 1, lost: 0, takeable: [] });
  expect(await lockOf(engine, id)).toMatchObject({ expires: ahead(30) });
});

test("a crashed worker's lock is not kept alive", async () => {
  const id = await engine.thing();
  await takeRows(engine);
  await aliveFor(-1);
  await expiresIn(10);
  expect(await beat(engine)).toMatchObject({ in_flight: 1, watched: 0, extended: 0, lost: 0 });
  expect(await lockOf(engine, id)).toMatchObject({ expires: ahead(10) });
});

test("what a dead fetcher has locked is not kept alive", async () => {
  const id = await engine.thing();
  await fetchKeys(engine);
  await expiresIn(10);
  expect(await beat(engine)).toMatchObject({ in_flight: 1, watched: 0, extended: 0 });
  expect(await lockOf(engine, id)).toMatchObject({ expires: ahead(10) });
});

test("a finished item is not watched", async () => {
  await engine.thing();
  await queueRows(engine);
  await engine.query("update millrace.items set finished_at = now()");
  await expiresIn(10);
  expect(await beat(engine)).toMatchObject({ in_flight: 0, watched: 0, extended: 0 });
});

test.each([
  ["carries another token", "update things set lock_token = gen_random_uuid()"],
  ["carries none", "update things set lock_token = null, lock_owner = null"],
  ["is gone", "delete from things"],
])("an item whose row %s is lost, and nothing is extended", async (_, change) => {
  await engine.thing();
  await queueRows(engine);
  await expiresIn(10);
  await engine.past(change);
  expect(await beat(engine)).toMatchObject({ in_flight: 1, watched: 1, extended: 0, lost: 1, late: 0 });
  expect(await engine.query("select 1 from things where lock_expires_at > now() + interval '11 s'")).toEqual([]);
});

test("a row that was taken since the snapshot is not extended", async () => {
  const id = await engine.thing();
  await queueRows(engine);
  await expiresIn(-1);
  await using reads = await stopReads(engine, "things");
  const beating = beat(engine);
  await untilBlocked(engine);
  await using other = await openTransaction(engine);
  await fetchRows(engine, { run: other.run });
  await other.query("update things set lock_expires_at = now() + interval '12 s'");
  await other.commit();
  await reads.goOn();
  expect(await beating).toMatchObject({ extended: 0 });
  expect(await lockOf(engine, id)).toMatchObject({ expires: ahead(12) });
});

test("a row that somebody has locked is left for the next tick, without waiting", async () => {
  const [locked, free] = [await engine.thing(), await engine.thing()];
  await queueRows(engine);
  await expiresIn(10);
  await using other = await openTransaction(engine);
  await other.query("update things set to_be_deleted = false where id = $1", [locked]);
  expect(await beat(engine)).toMatchObject({ watched: 2, extended: 1, lost: 0 });
  expect(await lockOf(engine, free)).toMatchObject({ expires: ahead(30) });
  await other.commit();
  expect(await beat(engine)).toMatchObject({ watched: 2, extended: 1 });
  expect(await lockOf(engine, locked)).toMatchObject({ expires: ahead(30) });
});

test("a row whose thief has not committed is left alone", async () => {
  const id = await engine.thing();
  await queueRows(engine);
  await expiresIn(10);
  await using thief = await openTransaction(engine);
  await thief.query("update things set lock_token = gen_random_uuid()");
  expect(await beat(engine)).toMatchObject({ extended: 0 });
  await thief.commit();
  expect(await lockOf(engine, id)).toMatchObject({ expires: ahead(10) });
});

test("all pipelines in one call, each with its own counts", async () => {
  const [mine, theirs] = [await engine.thing(), await engine.thing({ status: "active" })];
  await queueRows(engine);
  await takeRows(engine, "checks");
  await expiresIn(10);
  const things = await beat(engine);
  expect(things).toMatchObject({ pipeline: "things", in_flight: 1, extended: 1 });
  expect(await lockOf(engine, mine)).toMatchObject({ expires: ahead(30) });
  // in process: its lease of 20 s and a tick
  expect(await lockOf(engine, theirs)).toMatchObject({ expires: ahead(30) });
  await expiresIn(10);
  expect(await beat(engine, "checks")).toMatchObject({ pipeline: "checks", in_flight: 1, extended: 1, lost: 0 });
});

test("the same row's item of two pipelines: only the one that holds it is extended", async () => {
  const id = await engine.thing();
  await queueRows(engine);
  await engine.query(
    `insert into millrace.items (item_id, pipeline, state, lock_token, queued_at, alive_until)
     values ($1, 'checks', 'queued', gen_random_uuid(), now(), now() + interval '1 min')`,
    [id],
  );
  await expiresIn(10);
  expect(await beat(engine, "checks")).toMatchObject({ in_flight: 1, extended: 0, lost: 1 });
  await expiresIn(10);
  expect(await beat(engine)).toMatchObject({ in_flight: 1, extended: 1, lost: 0 });
});

test("how long sweep and scan are ago comes along", async () => {
  expect(await beat(engine)).toMatchObject({ sweep_age: null, scan_age: null });
  await engine.query(
    "insert into millrace.upkeep values ('sweep', now() - interval '50 s'), ('scan', now() - interval '70 s')",
  );
  const { sweep_age, scan_age } = await beat(engine);
  expect(sweep_age).toEqual(ago(50));
  expect(scan_age).toEqual(ago(70));
});

test.each([
  ["things", {}],
  ["checks", { status: "active" }],
])("a beat is noted as long as anything of %s is in flight: others follow", async (pipeline, columns) => {
  await engine.thing(columns);
  await queueRows(engine, pipeline);
  for (let n = 0; n < 2; n++) {
    await beat(engine);
    expect((await fetchRows(engine)).beat_age).toEqual(ago(0));
    await engine.query("update millrace.upkeep set done_at = now() - interval '1 hour'");
  }
  await engine.query("update millrace.items set finished_at = now()");
  await engine.query("update millrace.upkeep set done_at = now()");
  await beat(engine);
  expect((await fetchRows(engine)).beat_age).toBeGreaterThan(3600);
});

test("a due row under our expired lock, which nobody keeps alive, is takeable", async () => {
  await engine.thing();
  const keys = await queueRows(engine);
  await claimRows(engine, keys);
  await expiresIn(-1);
  expect(await beat(engine)).toMatchObject({ takeable: [] });
  await aliveFor(-1);
  await expiresIn(-1);
  expect(await beat(engine)).toMatchObject({ takeable: [0] });
  expect(await beat(engine, "checks")).toMatchObject({ takeable: [] });
});

test("rows that nobody keeps alive will be takeable when their locks end, each second once, up to the next tick", async () => {
  for (let n = 0; n < 4; n++) await engine.thing();
  await takeRows(engine);
  await aliveFor(-1);
  const ends = [6.5, 6.5, 2.5, 12.5];
  await engine.query(
    `update things t set lock_expires_at = now() + make_interval(secs => e.s)
     from (select id, ($1::float8[])[row_number() over ()] as s from things) e where e.id = t.id`,
    [ends],
  );
  // some time passes until it looks, the same for all of them
  const { takeable } = await beat(engine);
  const [first, second] = takeable as [number, number];
  expect(first).toBeGreaterThan(0);
  expect(first).toBeLessThanOrEqual(3);
  expect(takeable).toEqual([first, second]);
  expect(second - first).toBe(4);
});

test.each([
  ["is not due", "due_at = now() + interval '1 min'"],
  ["left every state", "status = 'checked', due_at = '2020-01-01'"],
  ["is another pipeline's", "lock_owner = 'checks'"],
  ["is nobody's", "lock_owner = null"],
])("a row that %s is not takeable", async (_, change) => {
  await engine.thing();
  await takeRows(engine);
  await aliveFor(-1);
  await expiresIn(-1);
  await engine.past(`update things set ${change}`);
  expect(await beat(engine)).toMatchObject({ takeable: [] });
});
