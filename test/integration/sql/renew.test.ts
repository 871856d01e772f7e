import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { openTransaction } from "../../support/overlap.ts";
import { answer, applyRows, fetchRows, takeRows, untilBlocked } from "../../support/steps.ts";
import { ahead, fetchKeys, itemOf, lockOf, renewRows } from "../../support/upkeep.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

/** Lets so many seconds pass for the locks and leases that are held. */
const pass = async (seconds: number) => {
  await engine.query("update things set lock_expires_at = lock_expires_at - make_interval(secs => $1)", [seconds]);
  await engine.query("update millrace.items set alive_until = alive_until - make_interval(secs => $1)", [seconds]);
};

test("a renewal extends lease and lock", async () => {
  const id = await engine.thing();
  const [claimed] = await takeRows(engine);
  await pass(7);
  expect(await itemOf(engine, id)).toMatchObject({ alive: ahead(13) });
  expect(await renewRows(engine, [claimed!])).toEqual([true]);
  expect(await itemOf(engine, id)).toMatchObject({ state: "processing", alive: ahead(20), token: claimed!.token });
  expect(await lockOf(engine, id)).toMatchObject({ expires: ahead(30), token: claimed!.token, owner: "things" });
});

test("the lock never outlives the lock timeout, nor the lease a tick", async () => {
  await using short = await createEngine({ lockTimeoutSeconds: 24, leaseSeconds: 20 });
  const id = await short.thing();
  const [claimed] = await takeRows(short);
  await renewRows(short, [claimed!]);
  expect(await lockOf(short, id)).toMatchObject({ expires: ahead(24) });
  expect(await itemOf(short, id)).toMatchObject({ alive: ahead(20) });
});

test("nobody is alive beyond the end of its function", async () => {
  const id = await engine.thing();
  const [claimed] = await takeRows(engine);
  expect(await renewRows(engine, [{ ...claimed!, left: 3 }])).toEqual([true]);
  expect(await itemOf(engine, id)).toMatchObject({ alive: ahead(3) });
  // one heartbeat tick more
  expect(await lockOf(engine, id)).toMatchObject({ expires: ahead(13) });
});

test("an expired lock that nobody took is renewed", async () => {
  const id = await engine.thing();
  const claimed = await takeRows(engine);
  await pass(60);
  expect(await renewRows(engine, claimed)).toEqual([true]);
  expect(await lockOf(engine, id)).toMatchObject({ expires: ahead(30) });
});

test("repeated, a renewal says the same", async () => {
  await engine.thing();
  const claimed = await takeRows(engine);
  expect(await renewRows(engine, claimed)).toEqual([true]);
  expect(await renewRows(engine, claimed)).toEqual([true]);
});

test("a row that carries another token is lost, and neither lock nor lease is extended", async () => {
  const id = await engine.thing();
  const claimed = await takeRows(engine);
  await pass(5);
  await engine.query("update things set lock_token = gen_random_uuid()");
  expect(await renewRows(engine, claimed)).toEqual([false]);
  expect(await lockOf(engine, id)).toMatchObject({ expires: ahead(25) });
  expect(await itemOf(engine, id)).toMatchObject({ alive: ahead(15) });
});

test.each([
  ["carries another token", "lock_token = gen_random_uuid()"],
  ["is not in process", "state = 'queued'"],
  ["is another pipeline's", "pipeline = 'checks'"],
])("a row whose item %s is lost, and its lock not extended", async (_, change) => {
  const id = await engine.thing();
  const claimed = await takeRows(engine);
  await pass(5);
  await engine.query(`update millrace.items set ${change}`);
  expect(await renewRows(engine, claimed)).toEqual([false]);
  expect(await lockOf(engine, id)).toMatchObject({ expires: ahead(25) });
  expect(await engine.query("select 1 from millrace.items where alive_until > now() + interval '16 s'")).toEqual([]);
});

test("what was applied, fetched again or deleted is lost", async () => {
  for (let n = 0; n < 3; n++) await engine.thing();
  const [applied, fetched, deleted] = await takeRows(engine);
  await applyRows(engine, [answer(applied!)]);
  await engine.query("update things set lock_expires_at = now() - interval '1 s' where id = $1", [fetched!.id]);
  expect((await fetchRows(engine)).ids).toEqual([fetched!.id]);
  await engine.past("delete from things where id = $1", [deleted!.id]);
  expect(await renewRows(engine, [applied!, fetched!, deleted!])).toEqual([false, false, false]);
});

test("what is only fetched cannot be renewed", async () => {
  await engine.thing();
  expect(await renewRows(engine, await fetchKeys(engine))).toEqual([false]);
});

test("each item of a batch has its own answer and its own end", async () => {
  const ids = [await engine.thing(), await engine.thing(), await engine.thing()].toSorted();
  const [a, b, c] = (await takeRows(engine)).toSorted((x, y) => (x.id < y.id ? -1 : 1));
  await engine.query("update things set lock_token = gen_random_uuid() where id = $1", [b!.id]);
  expect(await renewRows(engine, [{ ...c!, left: 4 }, b!, { ...a!, left: 9 }])).toEqual([true, false, true]);
  expect(await itemOf(engine, ids[0]!)).toMatchObject({ alive: ahead(9) });
  expect(await itemOf(engine, ids[2]!)).toMatchObject({ alive: ahead(4) });
});

test("an old token in the same batch as the new one is lost", async () => {
  const id = await engine.thing();
  const [claimed] = await takeRows(engine);
  expect(await renewRows(engine, [{ id, token: crypto.randomUUID() }, claimed!])).toEqual([false, true]);
});

test("a renewal waits for an uncommitted thief, and has lost", async () => {
  const id = await engine.thing();
  const claimed = await takeRows(engine);
  await pass(5);
  await using thief = await openTransaction(engine);
  await thief.query("update things set lock_token = gen_random_uuid(), lock_expires_at = now() + interval '50 s'");
  const renewing = renewRows(engine, claimed);
  await untilBlocked(engine);
  await thief.commit();
  expect(await renewing).toEqual([false]);
  expect(await lockOf(engine, id)).toMatchObject({ expires: ahead(50) });
  expect(await itemOf(engine, id)).toMatchObject({ alive: ahead(15) });
});

test("a renewal waits for an uncommitted ending of its item, and has lost", async () => {
  const id = await engine.thing();
  const claimed = await takeRows(engine);
  await pass(5);
  await using sweeper = await openTransaction(engine);
  await sweeper.query(
    "update millrace.items set finished_at = now(), lock_token = null, state = 'lost', alive_until = null",
  );
  const renewing = renewRows(engine, claimed);
  await untilBlocked(engine);
  await sweeper.commit();
  expect(await renewing).toEqual([false]);
  expect(await lockOf(engine, id)).toMatchObject({ expires: ahead(25) });
  expect(await itemOf(engine, id)).toMatchObject({ state: "lost", alive: null });
});

test("a renewal that waits for a change by somebody else is renewed", async () => {
  await engine.thing();
  const claimed = await takeRows(engine);
  await using other = await openTransaction(engine);
  await other.query("update things set to_be_deleted = true");
  const renewing = renewRows(engine, claimed);
  await untilBlocked(engine);
  await other.commit();
  expect(await renewing).toEqual([true]);
  expect(await engine.query("select to_be_deleted from things")).toEqual([{ to_be_deleted: true }]);
});
