import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { fetchRows, takeRows } from "../../support/steps.ts";
import { itemOf, lockOf, queueRows, sweepRows } from "../../support/upkeep.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine({ workers: 2 });
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

/** The longest lock timeout of the table: a lock is cleared only when it has been over for as long again. */
const GRACE = 30;

/** A row that a dead worker holds: its lock ended so many seconds ago, its lease before. */
async function deadRow(change = "note = 'dead'", ago = GRACE + 5): Promise<string> {
  const id = await engine.thing();
  await takeRows(engine);
  await engine.query("update millrace.items set alive_until = now() - interval '40 s' where item_id = $1", [id]);
  // one that becomes ready by the change would become due by it
  await engine.past(`update things set ${change} where id = $1`, [id]);
  await engine.query("update things set lock_expires_at = now() - make_interval(secs => $2) where id = $1", [id, ago]);
  return id;
}

const FREE = { token: null, owner: null, expires: null };

test.each([
  ["(a) whose owner is no pipeline", "lock_owner = 'ghosts'"],
  ["(b) that left every state", "status = 'checked'"],
  ["(b) that is ready for another pipeline than its owner", "status = 'active'"],
  ["(b) that is never due", "due_at = null"],
  ["(c) with a token that nobody owns", "lock_owner = null"],
])("a row %s is unlocked and its item ended", async (_, change) => {
  const id = await deadRow(change);
  expect(await sweepRows(engine)).toMatchObject({ table: "things", unlocked: 1, ended: 1, deleted: 0 });
  expect(await lockOf(engine, id)).toMatchObject(FREE);
  expect(await itemOf(engine, id)).toMatchObject({
    state: "lost",
    finished: true,
    token: null,
    alive: null,
    attempts: 1,
  });
  expect(await sweepRows(engine)).toMatchObject({ unlocked: 0, ended: 0 });
});

test("a ready row under its owner's expired lock is left to be fetched, also before it is due", async () => {
  for (const due of ["now()", "now() + interval '1 hour'"]) {
    await engine.clear();
    const id = await deadRow(`due_at = ${due}`);
    const before = await lockOf(engine, id);
    expect(await sweepRows(engine)).toMatchObject({ unlocked: 0, ended: 0 });
    expect(await sweepRows(engine, { scan: true })).toMatchObject({ unlocked: 0, ended: 0 });
    expect(await lockOf(engine, id)).toMatchObject({ token: before.token, owner: "things" });
    expect(await itemOf(engine, id)).toMatchObject({ state: "processing", finished: false });
  }
});

test.each([
  ["that is live", 20],
  ["that ended a moment ago", -GRACE + 5],
])("a lock %s is left alone, whatever its row is", async (_, expires) => {
  for (const change of ["lock_owner = 'ghosts'", "status = 'checked'", "due_at = null", "lock_owner = null"]) {
    await engine.clear();
    const id = await deadRow(change, -expires);
    const before = await lockOf(engine, id);
    expect(await sweepRows(engine, { scan: true })).toMatchObject({ unlocked: 0, ended: 0 });
    expect(await lockOf(engine, id)).toMatchObject({ token: before.token, owner: before.owner });
    expect(await itemOf(engine, id)).toMatchObject({ finished: false });
  }
});

test("a free row is left alone", async () => {
  await engine.thing({ status: "checked" });
  expect(await sweepRows(engine, { scan: true })).toMatchObject({ unlocked: 0, ended: 0 });
});

test.each([
  ["carries another token", "update things set lock_token = gen_random_uuid()"],
  ["carries none", "update things set lock_token = null, lock_owner = null, lock_expires_at = null"],
  ["is gone", "delete from things"],
])("an item whose row %s is ended, and its room free again", async (_, change) => {
  for (let n = 0; n < 4; n++) await engine.thing();
  await queueRows(engine);
  await engine.past(change);
  await engine.thing();
  expect(await fetchRows(engine)).toMatchObject({ why: "full" });
  expect(await sweepRows(engine)).toMatchObject({ unlocked: 0, ended: 4 });
  expect(await fetchRows(engine)).toMatchObject({ why: "rows" });
});

test("items in flight whose row carries their token are left alone", async () => {
  const [queued, processing] = [await engine.thing(), await engine.thing({ status: "active" })];
  await queueRows(engine);
  await takeRows(engine, "checks");
  expect(await sweepRows(engine)).toMatchObject({ unlocked: 0, ended: 0 });
  await engine.query("update millrace.items set alive_until = now() - interval '1 s'");
  expect(await sweepRows(engine, { scan: true })).toMatchObject({ unlocked: 0, ended: 0 });
  expect(await itemOf(engine, queued)).toMatchObject({ state: "queued", finished: false });
  expect(await itemOf(engine, processing, "checks")).toMatchObject({ state: "processing", finished: false });
});

test("of the items of two pipelines for one row, the one that holds it stays", async () => {
  const id = await engine.thing();
  await queueRows(engine);
  await engine.query(
    "insert into millrace.items (item_id, pipeline, state, lock_token, alive_until) values ($1, 'checks', 'queued', gen_random_uuid(), now())",
    [id],
  );
  expect(await sweepRows(engine)).toMatchObject({ unlocked: 0, ended: 1 });
  expect(await itemOf(engine, id)).toMatchObject({ state: "queued", finished: false });
  expect(await itemOf(engine, id, "checks")).toMatchObject({ state: "lost", finished: true });
});

test("an item of a pipeline that is no more is left alone", async () => {
  await engine.query(
    "insert into millrace.items (item_id, pipeline, state, lock_token) values (gen_random_uuid(), 'ghosts', 'queued', gen_random_uuid())",
  );
  expect(await sweepRows(engine)).toMatchObject({ ended: 0 });
});

test("what is remembered of a swept row stays for the next pass", async () => {
  const id = await deadRow("status = 'checked'");
  const token = crypto.randomUUID();
  await engine.query("update millrace.items set applied_token = $1, finished_tokens = array[$1::uuid]", [token]);
  await sweepRows(engine);
  await engine.query("update things set status = 'submitted'");
  expect((await fetchRows(engine)).ids).toEqual([id]);
  expect(await engine.query("select applied_token, finished_tokens, attempts from millrace.items")).toEqual([
    { applied_token: token, finished_tokens: [token], attempts: 1 },
  ]);
});

test("sweep and scan are noted", async () => {
  const tasks = async () =>
    (await engine.query<{ task: string }>("select task from millrace.upkeep order by 1")).map((r) => r.task);
  await sweepRows(engine);
  expect(await tasks()).toEqual(["sweep"]);
  await engine.query("update millrace.upkeep set done_at = '2020-01-01'");
  await sweepRows(engine, { scan: true });
  expect(await tasks()).toEqual(["scan", "sweep"]);
  expect(await engine.query("select 1 from millrace.upkeep where done_at < now() - interval '1 hour'")).toEqual([]);
});
