import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { openTransaction } from "../../support/overlap.ts";
import { claimRows, fetchRows, untilBlocked } from "../../support/steps.ts";
import { ago, ahead, enqueueRows, fetchKeys, itemOf, lockOf, RETRY_SECONDS, wakeAt } from "../../support/upkeep.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

/** upper factor 2 × process timeout 60 s × 2 */
const QUEUE_WAIT = 240;

test("an accepted item is queued, its lock left as it is", async () => {
  const id = await engine.thing();
  const accepted = await fetchKeys(engine);
  expect(await enqueueRows(engine, { accepted })).toEqual({ queued: 1, freed: 0, wake_in: null });
  const { token } = accepted[0]!;
  expect(await itemOf(engine, id)).toMatchObject({
    state: "queued",
    token,
    alive: ahead(QUEUE_WAIT),
    waited: ago(0),
    finished: false,
  });
  expect(await lockOf(engine, id)).toMatchObject({ token, owner: "things", expires: ahead(30) });
  expect(await wakeAt(engine)).toBeNull();
});

test("a refused row is freed as it was due, its item ended, and a wake-up armed", async () => {
  const id = await engine.thing({ due_at: "2024-02-29 12:34:56.123457+00" });
  await engine.query(
    "insert into millrace.items (item_id, pipeline, state, attempts, prev_lock_expired) values ($1, 'things', 'failed', 2, true)",
    [id],
  );
  const refused = await fetchKeys(engine);
  const { wake_in, ...counts } = await enqueueRows(engine, { refused });
  expect(counts).toEqual({ queued: 0, freed: 1 });
  expect(wake_in).toEqual(ahead(RETRY_SECONDS));
  expect(await wakeAt(engine)).toEqual(ahead(RETRY_SECONDS));
  expect(await lockOf(engine, id)).toMatchObject({ token: null, owner: null, expires: null });
  const [same] = await engine.query("select due_at = '2024-02-29 12:34:56.123457+00' as untouched from things");
  expect(same).toEqual({ untouched: true });
  expect(await itemOf(engine, id)).toMatchObject({
    state: "released",
    token: null,
    finished: true,
    alive: null,
    attempts: 2,
    suspect: true,
  });
  expect((await fetchRows(engine)).ids).toEqual([id]);
});

test("accepted and refused in one statement; one wake-up for all that were refused", async () => {
  const ids = [await engine.thing(), await engine.thing(), await engine.thing()].toSorted();
  const keys = (await fetchKeys(engine)).toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const answer = await enqueueRows(engine, { accepted: [keys[1]!], refused: [keys[0]!, keys[2]!] });
  expect(answer).toMatchObject({ queued: 1, freed: 2 });
  expect((await itemOf(engine, ids[0]!)).state).toBe("released");
  expect((await itemOf(engine, ids[1]!)).state).toBe("queued");
  expect((await lockOf(engine, ids[1]!)).token).toBe(keys[1]!.token);
  expect((await lockOf(engine, ids[2]!)).token).toBeNull();
});

test("a wake-up that is armed earlier is not armed again", async () => {
  await engine.thing();
  await engine.query("update millrace.wakeups set wake_at = now() + interval '20 s'");
  expect(await enqueueRows(engine, { refused: await fetchKeys(engine) })).toMatchObject({ freed: 1, wake_in: null });
});

test("repeated, it changes nothing more", async () => {
  const [first, second] = [await engine.thing(), await engine.thing()];
  const keys = await fetchKeys(engine);
  const accepted = keys.filter((k) => k.id === first);
  const refused = keys.filter((k) => k.id === second);
  await enqueueRows(engine, { accepted, refused });
  await engine.query("update millrace.items set queued_at = now() - interval '9 s' where item_id = $1", [first]);
  expect(await enqueueRows(engine, { accepted, refused })).toEqual({ queued: 0, freed: 0, wake_in: null });
  expect(await itemOf(engine, first)).toMatchObject({ state: "queued", waited: ago(9) });
  expect(await itemOf(engine, second)).toMatchObject({ state: "released" });
});

test("an item that was claimed meanwhile is neither queued nor freed", async () => {
  for (const outcome of ["accepted", "refused"]) {
    await engine.clear();
    const id = await engine.thing();
    const keys = await fetchKeys(engine);
    const [claimed] = await claimRows(engine, keys);
    expect(await enqueueRows(engine, { [outcome]: keys })).toMatchObject({ queued: 0, freed: 0, wake_in: null });
    expect(await itemOf(engine, id)).toMatchObject({ state: "processing", token: claimed!.token });
    expect(await lockOf(engine, id)).toMatchObject({ token: claimed!.token, owner: "things" });
  }
});

test.each(["accepted", "refused"])("an uncommitted claim is waited for and wins over %s", async (outcome) => {
  const id = await engine.thing();
  const keys = await fetchKeys(engine);
  await using other = await openTransaction(engine);
  const [claimed] = await claimRows(engine, keys, { run: other.run });
  const marking = enqueueRows(engine, { [outcome]: keys });
  await untilBlocked(engine);
  await other.commit();
  expect(await marking).toMatchObject({ queued: 0, freed: 0 });
  expect(await itemOf(engine, id)).toMatchObject({ state: "processing", token: claimed!.token });
  expect(await lockOf(engine, id)).toMatchObject({ token: claimed!.token });
});

test.each(["accepted", "refused"])("%s under another token does nothing", async (outcome) => {
  const id = await engine.thing();
  const [key] = await fetchKeys(engine);
  const answer = await enqueueRows(engine, { [outcome]: [{ id, token: crypto.randomUUID() }] });
  expect(answer).toEqual({ queued: 0, freed: 0, wake_in: null });
  expect(await itemOf(engine, id)).toMatchObject({ state: "locked", token: key!.token });
  expect(await lockOf(engine, id)).toMatchObject({ token: key!.token });
});

test("a refused row of which the item says that it was queued stays", async () => {
  const id = await engine.thing();
  const keys = await fetchKeys(engine);
  await enqueueRows(engine, { accepted: keys });
  expect(await enqueueRows(engine, { refused: keys })).toMatchObject({ freed: 0 });
  expect(await itemOf(engine, id)).toMatchObject({ state: "queued", token: keys[0]!.token });
  expect(await lockOf(engine, id)).toMatchObject({ token: keys[0]!.token });
});

test("an expired lock that somebody else took is not freed", async () => {
  const id = await engine.thing();
  const refused = await fetchKeys(engine);
  await engine.query("update things set lock_token = gen_random_uuid(), lock_owner = 'checks'");
  expect(await enqueueRows(engine, { refused })).toMatchObject({ freed: 0 });
  expect(await lockOf(engine, id)).toMatchObject({ owner: "checks" });
  expect(await itemOf(engine, id)).toMatchObject({ state: "locked", finished: false });
});

test("the same row's item of another pipeline is left alone", async () => {
  const id = await engine.thing();
  const accepted = await fetchKeys(engine);
  await engine.query(
    "insert into millrace.items (item_id, pipeline, state, lock_token) values ($1, 'checks', 'locked', $2)",
    [id, accepted[0]!.token],
  );
  expect(await enqueueRows(engine, { accepted })).toMatchObject({ queued: 1 });
  expect(await itemOf(engine, id, "checks")).toMatchObject({ state: "locked" });
});
