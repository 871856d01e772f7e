import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { openTransaction } from "../../support/overlap.ts";
import { answer, applyRows, claimRows, fetchRows, takeRows, untilBlocked } from "../../support/steps.ts";
import { fetchKeys, itemOf, lockOf, queueRows } from "../../support/upkeep.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine({ maxAttempts: 3 });
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

/** The worker dies: nobody renews, and the locks run out. */
const expire = () =>
  engine.query("update things set lock_expires_at = now() - interval '1 s' where lock_token is not null");

/** Takes every row so many times, its worker dying each time. */
async function dieOver(id: string, times: number): Promise<void> {
  for (let n = 0; n < times; n++) {
    await engine.query("update things set due_at = now() where due_at > now()");
    const [claimed] = await takeRows(engine);
    expect(claimed).toMatchObject({ id, result: "ours" });
    await expire();
  }
}

test("a row whose worker died is taken again, as a suspect", async () => {
  const id = await engine.thing();
  await dieOver(id, 1);
  const fetched = await fetchRows(engine);
  expect(fetched).toMatchObject({ ids: [id], lost: [{ id, attempts: 1, dead: false }], expired: 1 });
  expect(await itemOf(engine, id)).toMatchObject({
    state: "locked",
    suspect: true,
    last_error: "worker lost",
    attempts: 1,
  });
});

test("a row whose worker died twice backs off", async () => {
  const id = await engine.thing();
  await dieOver(id, 2);
  await engine.query("update things set last_processed_at = '2020-01-01'");
  const fetched = await fetchRows(engine);
  expect(fetched).toMatchObject({ why: "empty", ids: [], lost: [{ id, attempts: 2, dead: false }] });
  expect(await lockOf(engine, id)).toMatchObject({ token: null, owner: null, expires: null });
  expect(await itemOf(engine, id)).toMatchObject({
    state: "failed",
    finished: true,
    token: null,
    suspect: true,
    alive: null,
    attempts: 2,
    last_error: "worker lost",
  });
  const [row] = await engine.query<{ wait: number }>(
    "select extract(epoch from due_at - last_processed_at)::float8 as wait from things where last_processed_at > now() - interval '1 min'",
  );
  // 1 s × 2 ± 20 %
  expect(row!.wait).toBeGreaterThanOrEqual(1.6);
  expect(row!.wait).toBeLessThanOrEqual(2.4);
});

test("after its back-off the row is still a suspect", async () => {
  const id = await engine.thing();
  await dieOver(id, 2);
  await fetchRows(engine);
  await engine.query("update things set due_at = now()");
  const keys = await fetchKeys(engine);
  expect(await itemOf(engine, id)).toMatchObject({ state: "locked", suspect: true, attempts: 2 });
  expect(await claimRows(engine, keys)).toMatchObject([{ result: "alone" }]);
});

test("after maxAttempts the row is dead and never due", async () => {
  const id = await engine.thing();
  await dieOver(id, 2);
  await fetchRows(engine);
  await dieOver(id, 1);
  expect(await fetchRows(engine)).toMatchObject({ why: "empty", lost: [{ id, attempts: 3, dead: true }] });
  expect(await lockOf(engine, id)).toEqual({ token: null, owner: null, expires: null, due: null });
  expect(await itemOf(engine, id)).toMatchObject({ state: "dead", finished: true, last_error: "worker lost" });
  expect(await fetchRows(engine)).toMatchObject({ why: "empty", lost: [] });
});

test("maxAttempts 1 means that the first death is the last", async () => {
  await using strict = await createEngine({ maxAttempts: 1 });
  const id = await strict.thing();
  await takeRows(strict);
  await strict.query("update things set lock_expires_at = now() - interval '1 s'");
  expect(await fetchRows(strict)).toMatchObject({ why: "empty", ids: [], lost: [{ id, attempts: 1, dead: true }] });
  // whoever asks for it again gets a suspect
  expect(await itemOf(strict, id)).toMatchObject({ state: "dead", suspect: true });
});

test("a row that was asked for since its worker took it is taken at once, its attempts start again", async () => {
  const id = await engine.thing();
  await dieOver(id, 2);
  await engine.query("update things set due_at = now()");
  expect(await fetchRows(engine)).toMatchObject({ ids: [id], lost: [{ id, attempts: 2, dead: false }] });
  expect(await itemOf(engine, id)).toMatchObject({
    state: "locked",
    attempts: 0,
    suspect: true,
    last_error: "worker lost",
  });
  expect(await takeAgain()).toMatchObject([{ result: "ours", attempts: 1 }]);
});

async function takeAgain() {
  const [item] = await engine.query<{ id: string; token: string }>(
    "select item_id as id, lock_token as token from millrace.items",
  );
  return claimRows(engine, [item!], { alone: true });
}

test("a pass that is applied clears the suspicion", async () => {
  const id = await engine.thing();
  await dieOver(id, 1);
  const [claimed] = await takeRows(engine);
  await applyRows(engine, [answer(claimed!, { due: 0 })]);
  expect(await itemOf(engine, id)).toMatchObject({ state: "applied", suspect: false, attempts: 0 });
  expect(await fetchRows(engine)).toMatchObject({ ids: [id], lost: [] });
  expect(await itemOf(engine, id)).toMatchObject({ suspect: false, attempts: 0 });
});

test.each(["locked", "queued"])("the expired lock of a %s item is nobody's death", async (state) => {
  const id = await engine.thing();
  await engine.query(
    "insert into millrace.items (item_id, pipeline, state, attempts) values ($1, 'things', 'failed', 2)",
    [id],
  );
  await (state === "locked" ? fetchKeys(engine) : queueRows(engine));
  await engine.query("update millrace.items set attempts = 2, seen_due = (select due_at from things)");
  await expire();
  expect(await fetchRows(engine)).toMatchObject({ ids: [id], lost: [], expired: 1 });
  expect(await itemOf(engine, id)).toMatchObject({ state: "locked", suspect: false, attempts: 2, last_error: null });
});

test("a death in another pipeline does not count here", async () => {
  const id = await engine.thing();
  await engine.query(
    `insert into millrace.items (item_id, pipeline, state, attempts, seen_due)
     select id, 'checks', 'processing', 2, due_at from things where id = $1`,
    [id],
  );
  expect(await fetchRows(engine)).toMatchObject({ ids: [id], lost: [] });
  expect(await itemOf(engine, id)).toMatchObject({ suspect: false, attempts: 0 });
});

test("a claim that counts beside the fetch is waited for, and counted", async () => {
  const id = await engine.thing();
  await dieOver(id, 1);
  await using other = await openTransaction(engine);
  await other.query("update millrace.items set attempts = 2");
  const fetching = fetchRows(engine);
  await untilBlocked(engine);
  await other.commit();
  expect(await fetching).toMatchObject({ why: "empty", lost: [{ id, attempts: 2, dead: false }] });
  expect(await itemOf(engine, id)).toMatchObject({ state: "failed" });
});

test("one row backs off, its neighbour is fetched", async () => {
  const bad = await engine.thing();
  await dieOver(bad, 2);
  const good = await engine.thing();
  expect(await fetchRows(engine)).toMatchObject({ why: "rows", ids: [good], lost: [{ id: bad }] });
  expect(await itemOf(engine, bad)).toMatchObject({ state: "failed" });
});
