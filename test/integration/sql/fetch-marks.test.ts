import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { openTransaction } from "../../support/overlap.ts";
import { claimRows, fetchRows, untilBlocked } from "../../support/steps.ts";
import { ago, ahead, fetchKeys, itemOf, lockOf } from "../../support/upkeep.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine({ workers: 2 });
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

/** upper factor 2 × process timeout 60 s × 2 */
const QUEUE_WAIT = 240;

test("repeated with the same token, a fetch answers the same rows and takes no others", async () => {
  const ids = [await engine.thing(), await engine.thing()];
  const first = await fetchRows(engine);
  const other = await engine.thing();
  const again = await fetchRows(engine, { token: first.token });
  expect(again).toMatchObject({ why: "rows", lost: [] });
  expect(again.ids.toSorted()).toEqual(ids.toSorted());
  expect((await lockOf(engine, other)).token).toBeNull();
  expect((await fetchRows(engine)).ids).toEqual([other]);
});

test("a repetition leaves out what was queued or claimed meanwhile", async () => {
  for (let n = 0; n < 3; n++) await engine.thing();
  const first = await fetchRows(engine);
  const [queued, claimed, left] = first.ids.map((id) => ({ id, token: first.token }));
  await fetchRows(engine, { accepted: [queued!] });
  await claimRows(engine, [claimed!]);
  expect((await fetchRows(engine, { token: first.token })).ids).toEqual([left!.id]);
});

test("a repetition beside the first, still uncommitted, is busy; after it, the same rows", async () => {
  const id = await engine.thing();
  await using lost = await openTransaction(engine);
  const first = await fetchRows(engine, { run: lost.run });
  expect(await fetchRows(engine, { token: first.token })).toMatchObject({ why: "busy", ids: [] });
  await lost.commit();
  expect(await fetchRows(engine, { token: first.token })).toMatchObject({ why: "rows", ids: [id] });
});

test.each([
  ["rows", async () => void (await engine.thing())],
  ["empty", async () => undefined],
  ["paused", () => engine.query("update millrace.pipelines set paused_at = now()")],
  [
    "full",
    () =>
      engine.query(`insert into millrace.items (item_id, pipeline, state, lock_token, alive_until)
        select gen_random_uuid(), 'things', 'queued', gen_random_uuid(), now() + interval '1 min' from generate_series(1, 4)`),
  ],
])("marks are carried out when the answer is %s", async (why, prepare) => {
  await engine.thing();
  const [key] = await fetchKeys(engine);
  await prepare();
  expect(await fetchRows(engine, { accepted: [key!] })).toMatchObject({ why, queued: 1 });
  expect(await itemOf(engine, key!.id)).toMatchObject({
    state: "queued",
    token: key!.token,
    alive: ahead(QUEUE_WAIT),
    waited: ago(0),
  });
  expect(await lockOf(engine, key!.id)).toMatchObject({ token: key!.token, expires: ahead(30) });
});

test("marks are carried out when the answer is busy", async () => {
  await engine.thing();
  const [key] = await fetchKeys(engine);
  await using other = await openTransaction(engine);
  await fetchRows(engine, { run: other.run });
  expect(await fetchRows(engine, { accepted: [key!] })).toMatchObject({ why: "busy", queued: 1 });
  expect(await itemOf(engine, key!.id)).toMatchObject({ state: "queued" });
});

test("a mark carried twice is carried out once", async () => {
  await engine.thing();
  const accepted = await fetchKeys(engine);
  expect((await fetchRows(engine, { accepted })).queued).toBe(1);
  await engine.query("update millrace.items set queued_at = now() - interval '20 s'");
  expect((await fetchRows(engine, { accepted })).queued).toBe(0);
  expect((await itemOf(engine, accepted[0]!.id)).waited).toEqual(ago(20));
});

test("a mark does not flip an item back that was claimed before", async () => {
  await engine.thing();
  const accepted = await fetchKeys(engine);
  const [claimed] = await claimRows(engine, accepted);
  expect(await fetchRows(engine, { accepted })).toMatchObject({ queued: 0 });
  expect(await itemOf(engine, claimed!.id)).toMatchObject({ state: "processing", token: claimed!.token });
});

test("a mark waits for a claim that is still uncommitted, and leaves its item alone", async () => {
  await engine.thing();
  const accepted = await fetchKeys(engine);
  await using other = await openTransaction(engine);
  const [claimed] = await claimRows(engine, accepted, { run: other.run });
  const marking = fetchRows(engine, { accepted });
  await untilBlocked(engine);
  await other.commit();
  expect(await marking).toMatchObject({ queued: 0 });
  expect(await itemOf(engine, claimed!.id)).toMatchObject({ state: "processing", token: claimed!.token });
});

test("a mark with another token than the item's does nothing", async () => {
  const id = await engine.thing();
  const [key] = await fetchKeys(engine);
  expect(await fetchRows(engine, { accepted: [{ id, token: crypto.randomUUID() }] })).toMatchObject({ queued: 0 });
  expect(await itemOf(engine, id)).toMatchObject({ state: "locked", token: key!.token });
});

test("a mark of one pipeline leaves the same row's item of another alone", async () => {
  const id = await engine.thing();
  const accepted = await fetchKeys(engine);
  await engine.query(
    "insert into millrace.items (item_id, pipeline, state, lock_token) values ($1, 'checks', 'locked', $2)",
    [id, accepted[0]!.token],
  );
  expect(await fetchRows(engine, { accepted })).toMatchObject({ queued: 1 });
  expect(await itemOf(engine, id, "checks")).toMatchObject({ state: "locked" });
});

test("a row whose lock has expired is fetched anew, and its late mark dropped", async () => {
  const id = await engine.thing();
  const accepted = await fetchKeys(engine);
  await engine.query("update things set lock_expires_at = now() - interval '1 s'");
  const fetched = await fetchRows(engine, { accepted });
  expect(fetched).toMatchObject({ why: "rows", ids: [id], queued: 0, expired: 1 });
  expect(await itemOf(engine, id)).toMatchObject({ state: "locked", token: fetched.token });
});

test("marks and new rows in one fetch", async () => {
  const first = await engine.thing();
  const accepted = await fetchKeys(engine);
  const second = await engine.thing();
  const fetched = await fetchRows(engine, { accepted });
  expect(fetched).toMatchObject({ ids: [second], queued: 1 });
  expect(await itemOf(engine, first)).toMatchObject({ state: "queued" });
  expect(await itemOf(engine, second)).toMatchObject({ state: "locked", token: fetched.token });
});
