import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { answer, applyRows, claimRows, fetchRows } from "../../support/steps.ts";
import { ahead, fetchKeys, itemOf, lockOf, queueRows } from "../../support/upkeep.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine({ workers: 4 });
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

test("a claim rotates the token, locks for long and starts the lease", async () => {
  const id = await engine.thing();
  const [key] = await queueRows(engine);
  await engine.query("update things set lock_expires_at = now() + interval '3 s'");
  const [claimed] = await claimRows(engine, [key!]);
  expect(claimed).toMatchObject({ id, result: "ours", state: "provision", attempts: 1 });
  expect(claimed!.token).not.toBe(key!.token);
  expect(await lockOf(engine, id)).toMatchObject({ token: claimed!.token, owner: "things", expires: ahead(30) });
  expect(await itemOf(engine, id)).toMatchObject({
    state: "processing",
    token: claimed!.token,
    alive: ahead(20),
    worker: "test worker",
    finished: false,
  });
});

test("an item is claimed before it is marked queued too", async () => {
  await engine.thing();
  const keys = await fetchKeys(engine);
  expect(await claimRows(engine, keys)).toMatchObject([{ result: "ours" }]);
});

test("a row whose lock has expired is ours as long as nobody took it", async () => {
  await engine.thing();
  const keys = await fetchKeys(engine);
  await engine.query("update things set lock_expires_at = now() - interval '1 s'");
  expect(await claimRows(engine, keys)).toMatchObject([{ result: "ours" }]);
});

test("the message's token is stale after the claim", async () => {
  const id = await engine.thing();
  const [key] = await fetchKeys(engine);
  const [first] = await claimRows(engine, [key!]);
  expect(await claimRows(engine, [key!])).toMatchObject([{ result: "stale", state: null }]);
  expect(await lockOf(engine, id)).toMatchObject({ token: first!.token });
  expect(await itemOf(engine, id)).toMatchObject({ token: first!.token, attempts: 1 });
});

test("a token that was never the row's is stale and changes nothing", async () => {
  const id = await engine.thing();
  const [key] = await fetchKeys(engine);
  expect(await claimRows(engine, [{ id, token: crypto.randomUUID() }])).toMatchObject([{ result: "stale" }]);
  expect(await lockOf(engine, id)).toMatchObject({ token: key!.token });
  expect(await itemOf(engine, id)).toMatchObject({ state: "locked", token: key!.token, attempts: 0 });
});

test("a row that is gone is stale", async () => {
  await engine.thing();
  const keys = await fetchKeys(engine);
  await engine.past("delete from things");
  expect(await claimRows(engine, keys)).toMatchObject([{ result: "stale" }]);
});

test("a claim repeated after a lost answer gives the same answer and counts once", async () => {
  const id = await engine.thing();
  const [key] = await fetchKeys(engine);
  const next = crypto.randomUUID();
  const [first] = await claimRows(engine, [{ ...key!, next }]);
  const [again] = await claimRows(engine, [{ ...key!, next }]);
  const { millrace_now: _1, lock_expires_at: _2, ...before } = first!.row;
  const { millrace_now: _3, lock_expires_at: _4, ...after } = again!.row;
  expect(after).toEqual(before);
  expect(await itemOf(engine, id)).toMatchObject({ attempts: 1, token: next });
});

test("a repetition after the row was applied is stale", async () => {
  await engine.thing();
  const [key] = await fetchKeys(engine);
  const next = crypto.randomUUID();
  const [claimed] = await claimRows(engine, [{ ...key!, next }]);
  await applyRows(engine, [answer(claimed!)]);
  expect(await claimRows(engine, [{ ...key!, next }])).toMatchObject([{ result: "stale" }]);
});

test("each attempt counts", async () => {
  const id = await engine.thing();
  for (const attempts of [1, 2, 3]) {
    await engine.query(
      "update things set lock_token = null, lock_owner = null, lock_expires_at = null, due_at = now()",
    );
    await engine.query("update millrace.items set finished_at = now()");
    const keys = await fetchKeys(engine);
    expect(await claimRows(engine, keys)).toMatchObject([{ result: "ours", attempts }]);
  }
  expect(await itemOf(engine, id)).toMatchObject({ attempts: 3 });
});

test("two deliveries of one message in a batch: one is ours, the other stale", async () => {
  const id = await engine.thing();
  const [key] = await fetchKeys(engine);
  const claimed = await claimRows(engine, [key!, key!]);
  expect(claimed.map((c) => c.result).toSorted()).toEqual(["ours", "stale"]);
  const ours = claimed.find((c) => c.result === "ours")!;
  expect(await lockOf(engine, id)).toMatchObject({ token: ours.token });
  expect(await itemOf(engine, id)).toMatchObject({ token: ours.token, attempts: 1 });
});

test("the same batch repeated gives the same one of the two", async () => {
  await engine.thing();
  const [key] = await fetchKeys(engine);
  const batch = [1, 2].map((n) => ({ ...key!, next: `00000000-0000-4000-8000-00000000000${n}` }));
  for (const order of [batch, batch.toReversed()]) {
    const claimed = await claimRows(engine, order);
    expect(claimed.find((c) => c.token === batch[0]!.next)).toMatchObject({ result: "ours", attempts: 1 });
    expect(claimed.find((c) => c.token === batch[1]!.next)).toMatchObject({ result: "stale" });
  }
});

test("a repetition wins over another claim of the same row in its batch", async () => {
  await engine.thing();
  const [key] = await fetchKeys(engine);
  // the smaller one would win among equals
  const [next, smaller] = ["f", "0"].map((c) => `${c}0000000-0000-4000-8000-000000000000`);
  await claimRows(engine, [{ ...key!, next: next! }]);
  const claimed = await claimRows(engine, [
    { ...key!, next: next! },
    { id: key!.id, token: next!, next: smaller! },
  ]);
  expect(claimed).toMatchObject([{ result: "ours", attempts: 1 }, { result: "stale" }]);
});

test("in a batch with an old and the new token of one row, the new one is ours", async () => {
  const id = await engine.thing();
  const [old] = await fetchKeys(engine);
  await engine.query("update things set lock_expires_at = now() - interval '1 s'");
  const { token } = await fetchRows(engine);
  // among claims of one row the smallest would win
  const [before, next, after] = ["0", "7", "f"].map((c) => `${c}0000000-0000-4000-8000-000000000000`);
  const batch = [
    { ...old!, next: before! },
    { id, token, next: next! },
    { ...old!, next: after! },
  ];
  const claimed = await claimRows(engine, batch);
  expect(claimed.map((c) => c.result)).toEqual(["stale", "ours", "stale"]);
  expect(await itemOf(engine, id)).toMatchObject({ token: next, attempts: 1 });
});

test("without an item the claim is stale and leaves the row alone", async () => {
  const id = await engine.thing();
  const keys = await fetchKeys(engine);
  await engine.query("truncate millrace.items");
  expect(await claimRows(engine, keys)).toMatchObject([{ result: "stale" }]);
  expect(await lockOf(engine, id)).toMatchObject({ token: keys[0]!.token });
});

test.each([
  ["carries another token", "lock_token = gen_random_uuid()"],
  ["has ended", "finished_at = now()"],
  ["is another pipeline's", "pipeline = 'checks'"],
])("an item that %s makes the claim stale", async (_, change) => {
  const id = await engine.thing();
  const keys = await fetchKeys(engine);
  await engine.query(`update millrace.items set ${change}`);
  expect(await claimRows(engine, keys)).toMatchObject([{ result: "stale" }]);
  expect(await lockOf(engine, id)).toMatchObject({ token: keys[0]!.token });
  expect(await engine.query("select 1 from millrace.items where attempts > 0")).toEqual([]);
});

test("a claim leaves the same row's item of another pipeline alone", async () => {
  const id = await engine.thing();
  const keys = await fetchKeys(engine);
  await engine.query(
    "insert into millrace.items (item_id, pipeline, state, lock_token) values ($1, 'checks', 'locked', $2)",
    [id, keys[0]!.token],
  );
  expect(await claimRows(engine, keys)).toMatchObject([{ result: "ours" }]);
  expect(await itemOf(engine, id, "checks")).toMatchObject({ state: "locked", attempts: 0 });
});

test("a batch: each key has its own answer", async () => {
  const ids = [await engine.thing(), await engine.thing(), await engine.thing()];
  const keys = await fetchKeys(engine);
  await engine.query("update things set lock_token = gen_random_uuid() where id = $1", [ids[1]]);
  const claimed = await claimRows(engine, keys);
  for (const c of claimed) expect(c.result).toBe(c.id === ids[1] ? "stale" : "ours");
  expect(new Set(claimed.map((c) => c.token)).size).toBe(3);
});
