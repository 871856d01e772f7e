import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { openTransaction, stopReads } from "../../support/overlap.ts";
import { claimRows, untilBlocked } from "../../support/steps.ts";
import { ago, beat, itemOf, queueRows } from "../../support/upkeep.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine({ workers: 2 });
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

/** How many seconds ago each was queued. */
const queuedAgo = (seconds: Readonly<Record<string, number>>) =>
  engine.query(
    "update millrace.items set queued_at = now() - make_interval(secs => s.value::float8) from json_each_text($1) s where item_id = s.key::uuid",
    [JSON.stringify(seconds)],
  );

/** An item that waits, and two in process: all that there are workers for. */
async function waitingAndProcessing() {
  const [id, other, second] = [await engine.thing(), await engine.thing(), await engine.thing()];
  const keys = await queueRows(engine);
  const key = keys.find((k) => k.id === id)!;
  await claimRows(
    engine,
    keys.filter((k) => k.id !== id),
  );
  // claimed before its send was marked: it overtakes nobody
  await engine.query("update millrace.items set queued_at = null where item_id = $1", [second]);
  return { id, other, key };
}

test("an item that waits for half a minute while a worker is free has been forgotten: once more", async () => {
  const id = await engine.thing();
  const [key] = await queueRows(engine);
  await queuedAgo({ [id]: 25 });
  expect((await beat(engine)).resend).toEqual([]);
  await queuedAgo({ [id]: 31 });
  expect((await beat(engine)).resend).toEqual([key]);
  expect(await itemOf(engine, id)).toMatchObject({ state: "queued", token: key!.token, waited: ago(0) });
  expect((await beat(engine)).resend).toEqual([]);
});

test("also while another is processed, if that is not all there is room for", async () => {
  const { id, other, key } = await waitingAndProcessing();
  await queuedAgo({ [id]: 31, [other]: 61 });
  await engine.query("update millrace.items set finished_at = now() where queued_at is null");
  expect((await beat(engine)).resend).toEqual([key]);
});

test("an item waits while all workers are busy with others that were queued before it", async () => {
  const { id, other } = await waitingAndProcessing();
  await queuedAgo({ [id]: 60, [other]: 61 });
  expect((await beat(engine)).resend).toEqual([]);
});

test("a worker that is dead does not count as processing", async () => {
  const { id, other, key } = await waitingAndProcessing();
  await queuedAgo({ [id]: 60, [other]: 61 });
  await engine.query("update millrace.items set alive_until = now() - interval '1 s' where item_id = $1", [other]);
  expect((await beat(engine)).resend).toEqual([key]);
});

test("an item that one queued later has overtaken is sent once more", async () => {
  const { id, other, key } = await waitingAndProcessing();
  await queuedAgo({ [id]: 60, [other]: 54 });
  expect((await beat(engine)).resend).toEqual([key]);
  expect((await itemOf(engine, id)).waited).toEqual(ago(0));
  expect((await beat(engine)).resend).toEqual([]);
});

test("an item that is overtaken by a few seconds waits: queues are not strictly in order", async () => {
  const { id, other } = await waitingAndProcessing();
  await queuedAgo({ [id]: 60, [other]: 56 });
  expect((await beat(engine)).resend).toEqual([]);
});

test("an overtaken item is sent at most every half a minute", async () => {
  const { id, other } = await waitingAndProcessing();
  await queuedAgo({ [id]: 25, [other]: 1 });
  expect((await beat(engine)).resend).toEqual([]);
});

test("what is processed is not sent again", async () => {
  const { other } = await waitingAndProcessing();
  await queuedAgo({ [other]: 300 });
  expect((await beat(engine)).resend).toEqual([]);
});

test.each([
  ["of another token's row", "update things set lock_token = gen_random_uuid()"],
  ["whose time is over", "update millrace.items set alive_until = now() - interval '1 s'"],
  ["that is only locked", "update millrace.items set state = 'locked'"],
])("an item %s is not sent again", async (_, change) => {
  const id = await engine.thing();
  await queueRows(engine);
  await queuedAgo({ [id]: 60 });
  await engine.query(change);
  expect((await beat(engine)).resend).toEqual([]);
});

test("an item that was claimed since the snapshot is not sent again", async () => {
  const id = await engine.thing();
  const keys = await queueRows(engine);
  await queuedAgo({ [id]: 60 });
  await using reads = await stopReads(engine, "things");
  const beating = beat(engine);
  await untilBlocked(engine);
  await using other = await openTransaction(engine);
  await claimRows(engine, keys, { run: other.run });
  await other.commit();
  await reads.goOn();
  expect((await beating).resend).toEqual([]);
  expect(await itemOf(engine, id)).toMatchObject({ state: "processing", waited: ago(60) });
});

test("an item that somebody has locked is left for the next tick, without waiting", async () => {
  const id = await engine.thing();
  const [key] = await queueRows(engine);
  await queuedAgo({ [id]: 60 });
  await using other = await openTransaction(engine);
  await other.query("select 1 from millrace.items for no key update");
  expect((await beat(engine)).resend).toEqual([]);
  await other.commit();
  expect((await beat(engine)).resend).toEqual([key]);
});

test("each pipeline's messages by themselves: another's processing does not stand for ours", async () => {
  const id = await engine.thing();
  const [key] = await queueRows(engine);
  await engine.thing({ status: "active" });
  await claimRows(engine, await queueRows(engine, "checks"), { pipeline: "checks" });
  await queuedAgo({ [id]: 60 });
  expect((await beat(engine, "checks")).resend).toEqual([]);
  await queuedAgo({ [id]: 60 });
  expect((await beat(engine)).resend).toEqual([key]);
});
