import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { openTransaction } from "../../support/overlap.ts";
import { fetchRows } from "../../support/steps.ts";
import { ahead, enqueueRows, fetchKeys, RETRY_SECONDS, wakeAt } from "../../support/upkeep.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine({ workers: 2 });
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

/** A row that becomes due in so many seconds. */
async function dueIn(seconds: number, columns: Readonly<Record<string, unknown>> = {}): Promise<string> {
  const id = await engine.thing({ ...columns, due_at: null });
  await engine.query("update things set due_at = now() + make_interval(secs => $2) where id = $1", [id, seconds]);
  return id;
}

/** A wake-up that was armed for so many seconds ahead. */
const armedIn = (seconds: number) =>
  engine.query("update millrace.wakeups set wake_at = now() + make_interval(secs => $1) where pipeline = 'things'", [
    seconds,
  ]);

test("the next row that becomes due is armed once", async () => {
  await dueIn(70);
  await dueIn(60);
  expect((await fetchRows(engine)).wake_in).toEqual(ahead(60));
  expect(await wakeAt(engine)).toEqual(ahead(60));
  expect((await fetchRows(engine)).wake_in).toBeNull();
});

test("an earlier row is armed again, a later one is not", async () => {
  await dueIn(60);
  await fetchRows(engine);
  await dueIn(70);
  expect((await fetchRows(engine)).wake_in).toBeNull();
  await dueIn(50);
  expect((await fetchRows(engine)).wake_in).toEqual(ahead(50));
  expect(await wakeAt(engine)).toEqual(ahead(50));
});

test("a wake-up that fires just now, or should have, does not hold the next one back", async () => {
  await dueIn(60);
  for (const armed of [1, -30]) {
    await armedIn(armed);
    expect((await fetchRows(engine)).wake_in).toEqual(ahead(60));
    expect(await wakeAt(engine)).toEqual(ahead(60));
  }
  await armedIn(10);
  expect((await fetchRows(engine)).wake_in).toBeNull();
  expect(await wakeAt(engine)).toEqual(ahead(10));
});

test("a scheduled fetch sends it again when the time is near: the last one may have been lost", async () => {
  await dueIn(60);
  await fetchRows(engine);
  expect((await fetchRows(engine, { scheduled: true })).wake_in).toEqual(ahead(60));
  expect((await fetchRows(engine)).wake_in).toBeNull();
});

test("a scheduled fetch does not send it again when the next one comes in time", async () => {
  await dueIn(200);
  expect((await fetchRows(engine, { scheduled: true })).wake_in).toEqual(ahead(200));
  expect((await fetchRows(engine, { scheduled: true })).wake_in).toBeNull();
});

test("a wake-up is armed for 15 minutes at most, and not again in between", async () => {
  await dueIn(5000);
  expect((await fetchRows(engine)).wake_in).toEqual(ahead(5000));
  expect(await wakeAt(engine)).toEqual(ahead(900));
  expect((await fetchRows(engine)).wake_in).toBeNull();
  await dueIn(950);
  expect((await fetchRows(engine)).wake_in).toBeNull();
});

test("a wake-up that cannot be armed at once is sent all the same, without waiting", async () => {
  await dueIn(60);
  await using other = await openTransaction(engine);
  await other.query("select 1 from millrace.wakeups for update");
  expect((await fetchRows(engine)).wake_in).toEqual(ahead(60));
  expect(await wakeAt(engine)).toBeNull();
});

test("a fetch that has nothing to arm leaves the wake-up to others", async () => {
  await engine.thing();
  const refused = await fetchKeys(engine);
  await using other = await openTransaction(engine);
  expect(await fetchRows(engine, { run: other.run })).toMatchObject({ wake_in: null });
  expect(await enqueueRows(engine, { refused })).toMatchObject({ freed: 1, wake_in: ahead(RETRY_SECONDS) });
  expect(await wakeAt(engine)).toEqual(ahead(RETRY_SECONDS));
});

test("only a row that this pipeline will fetch is armed", async () => {
  await dueIn(40, { status: "checked" });
  await dueIn(50, { lock_owner: "checks" });
  expect((await fetchRows(engine)).wake_in).toBeNull();
  await dueIn(60, { lock_owner: "things" });
  expect((await fetchRows(engine)).wake_in).toEqual(ahead(60));
  expect(await wakeAt(engine, "checks")).toBeNull();
});

test("a row that is due already needs no wake-up", async () => {
  await engine.thing({ lock_token: crypto.randomUUID(), lock_owner: "things", lock_expires_at: "2200-01-01" });
  expect((await fetchRows(engine)).wake_in).toBeNull();
  expect(await wakeAt(engine)).toBeNull();
});

test("a full queue arms nothing: whoever drains it hints", async () => {
  await dueIn(60);
  await engine.query(`insert into millrace.items (item_id, pipeline, state, lock_token, alive_until)
    select gen_random_uuid(), 'things', 'queued', gen_random_uuid(), now() + interval '1 min' from generate_series(1, 4)`);
  expect(await fetchRows(engine)).toMatchObject({ why: "full", wake_in: null });
  expect(await wakeAt(engine)).toBeNull();
});

test("a row that backs off in this fetch is armed too", async () => {
  const id = await engine.thing({
    lock_token: crypto.randomUUID(),
    lock_owner: "things",
    lock_expires_at: "2020-01-01",
  });
  await engine.query(
    `insert into millrace.items (item_id, pipeline, state, lock_token, attempts, seen_due)
     select id, 'things', 'processing', lock_token, 4, due_at from things where id = $1`,
    [id],
  );
  await dueIn(60);
  // 1 s × 2³ ± 20 %
  const { why, wake_in } = await fetchRows(engine);
  expect(why).toBe("empty");
  expect(wake_in).toBeGreaterThan(6);
  expect(wake_in).toBeLessThan(10);
});
