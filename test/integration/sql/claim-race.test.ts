import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { openTransaction, stopReads } from "../../support/overlap.ts";
import { claimRows, fetchRows, untilBlocked } from "../../support/steps.ts";
import { fetchKeys, itemOf, lockOf } from "../../support/upkeep.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

test("of two claims at once exactly one is ours", async () => {
  for (let n = 0; n < 10; n++) await engine.thing();
  const keys = await fetchKeys(engine);
  const [left, right] = await Promise.all([claimRows(engine, keys), claimRows(engine, keys.toReversed())]);
  const ours = [...left, ...right].filter((c) => c.result === "ours");
  expect(ours.map((c) => c.id).toSorted()).toEqual(keys.map((k) => k.id).toSorted());
  for (const { id, token } of ours) {
    expect(await lockOf(engine, id)).toMatchObject({ token });
    expect(await itemOf(engine, id)).toMatchObject({ token, attempts: 1 });
  }
});

test("a second delivery waits for the first claim, and is stale", async () => {
  const id = await engine.thing();
  const [key] = await fetchKeys(engine);
  await using other = await openTransaction(engine);
  const [first] = await claimRows(engine, [key!], { run: other.run });
  const second = claimRows(engine, [key!]);
  await untilBlocked(engine);
  await other.commit();
  expect(await second).toMatchObject([{ result: "stale" }]);
  expect(await lockOf(engine, id)).toMatchObject({ token: first!.token });
  expect(await itemOf(engine, id)).toMatchObject({ token: first!.token, attempts: 1 });
});

test("a second delivery is ours when the first claim rolls back", async () => {
  await engine.thing();
  const [key] = await fetchKeys(engine);
  await using other = await openTransaction(engine);
  await claimRows(engine, [key!], { run: other.run });
  const second = claimRows(engine, [key!]);
  await untilBlocked(engine);
  await other.query("rollback");
  expect(await second).toMatchObject([{ result: "ours", attempts: 1 }]);
});

test("a claim repeated while the first is uncommitted waits, is ours and counts once", async () => {
  const id = await engine.thing();
  const [key] = await fetchKeys(engine);
  const next = crypto.randomUUID();
  await using lost = await openTransaction(engine);
  await claimRows(engine, [{ ...key!, next }], { run: lost.run });
  const again = claimRows(engine, [{ ...key!, next }]);
  await untilBlocked(engine);
  await lost.commit();
  expect(await again).toMatchObject([{ result: "ours", token: next, attempts: 1 }]);
  expect(await itemOf(engine, id)).toMatchObject({ attempts: 1, token: next });
});

test("a claim repeated while somebody else's is uncommitted waits, and is stale", async () => {
  await engine.thing();
  const [key] = await fetchKeys(engine);
  const [mine] = await claimRows(engine, [key!]);
  await using thief = await openTransaction(engine);
  await thief.query("update things set lock_token = gen_random_uuid()");
  const again = claimRows(engine, [{ ...key!, next: mine!.token }]);
  await untilBlocked(engine);
  await thief.commit();
  expect(await again).toMatchObject([{ result: "stale" }]);
});

test("a claim waits for a thief of one row, and takes the others", async () => {
  const ids = [await engine.thing(), await engine.thing(), await engine.thing()];
  const keys = await fetchKeys(engine);
  await using thief = await openTransaction(engine);
  await thief.query("update things set lock_token = gen_random_uuid() where id = $1", [ids[1]]);
  const claiming = claimRows(engine, keys);
  await untilBlocked(engine);
  await thief.commit();
  for (const c of await claiming) expect(c.result).toBe(c.id === ids[1] ? "stale" : "ours");
});

test.each(["things", "millrace.items"])(
  "a claim that passes over locked rows does not wait, and takes the others: %s",
  async (table) => {
    const [locked, free] = [await engine.thing(), await engine.thing()];
    const keys = await fetchKeys(engine);
    await using other = await openTransaction(engine);
    await other.query(`select 1 from ${table} where ${table === "things" ? "id" : "item_id"} = $1 for no key update`, [
      locked,
    ]);
    const claimed = await claimRows(engine, keys, { skipLocked: true });
    for (const c of claimed) expect(c.result).toBe(c.id === free ? "ours" : "stale");
    const key = keys.find((k) => k.id === locked)!;
    expect(await lockOf(engine, locked)).toMatchObject({ token: key.token });
    expect(await itemOf(engine, locked)).toMatchObject({ state: "locked", token: key.token, attempts: 0 });
    await other.commit();
    expect(await claimRows(engine, [key])).toMatchObject([{ result: "ours", attempts: 1 }]);
  },
);

test("a claim of an expired lock loses against a fetch that takes the row", async () => {
  const id = await engine.thing();
  const keys = await fetchKeys(engine);
  await engine.query("update things set lock_expires_at = now() - interval '1 s'");
  await using other = await openTransaction(engine);
  const fetched = await fetchRows(engine, { run: other.run });
  const claiming = claimRows(engine, keys);
  await untilBlocked(engine);
  await other.commit();
  expect(fetched.ids).toEqual([id]);
  expect(await claiming).toMatchObject([{ result: "stale" }]);
  expect(await itemOf(engine, id)).toMatchObject({ state: "locked", token: fetched.token });
});

test("an item that ended while the claim waited for it makes the claim stale", async () => {
  const id = await engine.thing();
  const keys = await fetchKeys(engine);
  await using sweeper = await openTransaction(engine);
  await sweeper.query("update millrace.items set finished_at = now(), lock_token = null, state = 'lost'");
  const claiming = claimRows(engine, keys);
  await untilBlocked(engine);
  await sweeper.commit();
  expect(await claiming).toMatchObject([{ result: "stale" }]);
  expect(await itemOf(engine, id)).toMatchObject({ state: "lost", attempts: 0 });
});

test("an item that became a suspect while the claim waited for it is left to be claimed alone", async () => {
  await engine.thing();
  const keys = await fetchKeys(engine);
  await using other = await openTransaction(engine);
  await other.query("update millrace.items set prev_lock_expired = true");
  const claiming = claimRows(engine, keys);
  await untilBlocked(engine);
  await other.commit();
  expect(await claiming).toMatchObject([{ result: "alone" }]);
});

test("the answer is the row of now: what was written since the snapshot is in it", async () => {
  await engine.thing();
  const keys = await fetchKeys(engine);
  await using reads = await stopReads(engine, "things");
  const claiming = claimRows(engine, keys);
  await untilBlocked(engine);
  await engine.query("update things set to_be_deleted = true, due_at = '2030-01-01'");
  await reads.goOn();
  const [claimed] = await claiming;
  expect(claimed).toMatchObject({ result: "ours", state: "remove", row: { to_be_deleted: true } });
  expect(claimed!.seen).toMatch(/^2030-01-01/);
});

test("batches in opposite order do not block each other for good", async () => {
  for (let n = 0; n < 20; n++) await engine.thing();
  const keys = await fetchKeys(engine);
  for (let round = 0; round < 5; round++) {
    const claims = await Promise.all([claimRows(engine, keys), claimRows(engine, keys.toReversed())]);
    const ours = claims.flat().filter((c) => c.result === "ours");
    expect(ours).toHaveLength(20);
    for (const [n, { id, token }] of ours.entries()) keys[n] = { id, token };
  }
});
