import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { endRows, itemOf, requestRows, takeAgain, takeNew, thingOf } from "../../support/endings.ts";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { answer, applyRows, claimRows, fetchRows, onClient, untilBlocked } from "../../support/steps.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const later = "update things set due_at = now() + interval '1 h'";

test("a free row gets the intent, is due at once, and keeps all else", async () => {
  const id = await engine.thing({ note: "kept" });
  await engine.query(later);
  expect(await requestRows(engine, [id], { to_be_deleted: true })).toEqual([{ id, ready_for: "things" }]);
  expect(await thingOf(engine, id)).toMatchObject({ to_be_deleted: true, note: "kept", lock_token: null });
  expect(await fetchRows(engine)).toMatchObject({ ids: [id] });
});

test("without intent it is due at once all the same", async () => {
  const id = await engine.thing();
  await engine.query(later);
  await requestRows(engine, [id]);
  expect(await fetchRows(engine)).toMatchObject({ ids: [id] });
});

test("a held row keeps its lock, and the pass that runs cannot push the request away", async () => {
  const a = await takeNew(engine);
  await requestRows(engine, [a.id], { to_be_deleted: true });
  expect(await thingOf(engine, a.id)).toMatchObject({ lock_token: a.token, lock_owner: "things", to_be_deleted: true });
  expect(await itemOf(engine, a.id)).toMatchObject({ state: "processing", lock_token: a.token, attempts: 1 });
  expect(await applyRows(engine, [answer(a, { due: 3600 })])).toMatchObject([{ result: "applied", hint: "things" }]);
  expect(await fetchRows(engine)).toMatchObject({ ids: [a.id] });
});

test("a backed off row is due at once, and its attempts start again", async () => {
  const a = await takeNew(engine);
  await engine.query("update millrace.items set attempts = 4, resets = 2");
  await endRows(engine, "fail", [a]);
  await requestRows(engine, [a.id]);
  expect(await itemOf(engine, a.id)).toMatchObject({ state: "failed", attempts: 0, resets: 0 });
  expect(await fetchRows(engine)).toMatchObject({ ids: [a.id] });
});

test("a dead row is revived", async () => {
  const a = await takeNew(engine);
  await engine.query("update millrace.items set attempts = 5");
  expect(await endRows(engine, "fail", [a])).toMatchObject([{ state: "dead" }]);
  await requestRows(engine, [a.id]);
  expect(await itemOf(engine, a.id)).toMatchObject({ state: "failed", attempts: 0 });
  expect((await takeAgain(engine, a.id)).attempts).toBe(1);
});

test("an owner that a reset kept stays", async () => {
  const a = await takeNew(engine);
  await endRows(engine, "reset", [a], { keep: true });
  await requestRows(engine, [a.id]);
  expect(await thingOf(engine, a.id)).toMatchObject({ lock_owner: "things" });
});

test("in the very instant that due_at names already, it is a microsecond later: a claim saw another one", async () => {
  const id = await engine.thing();
  const client = await engine.database.connect();
  await client.query("begin");
  await client.query("update things set due_at = now()");
  await requestRows(engine, [id], {}, onClient(client));
  const { rows } = await client.query("select (due_at - now())::text as ahead from things");
  await client.query("rollback");
  expect(rows).toEqual([{ ahead: "00:00:00.000001" }]);
});

test("waits for an open apply and is not lost to it", async () => {
  const a = await takeNew(engine);
  const other = await engine.database.connect();
  await other.query("begin");
  await applyRows(engine, [answer(a, { set: { note: "mine" }, due: 3600 })], { run: onClient(other) });
  const requesting = requestRows(engine, [a.id], { to_be_deleted: true });
  await untilBlocked(engine);
  await other.query("commit");
  expect(await requesting).toEqual([{ id: a.id, ready_for: "things" }]);
  expect(await thingOf(engine, a.id)).toMatchObject({ note: "mine", to_be_deleted: true });
  // its own instant lies before the apply's end, so it is due
  expect(await fetchRows(engine)).toMatchObject({ ids: [a.id] });
});

test("a failure that has not committed: the row is revived from it", async () => {
  const a = await takeNew(engine);
  await engine.query("update millrace.items set attempts = 5");
  const other = await engine.database.connect();
  await other.query("begin");
  await endRows(engine, "fail", [a], { run: onClient(other) });
  const requesting = requestRows(engine, [a.id]);
  await untilBlocked(engine);
  await other.query("commit");
  await requesting;
  expect(await itemOf(engine, a.id)).toMatchObject({ attempts: 0, state: "failed" });
  expect(await fetchRows(engine)).toMatchObject({ ids: [a.id] });
});

test("answers the rows that exist: one row an id, none for an unknown one", async () => {
  const [a, b] = [await engine.thing(), await engine.thing({ status: "checked" })];
  const rows = await requestRows(engine, [b, crypto.randomUUID(), a, a], { to_be_deleted: false });
  expect(new Map(rows.map((r) => [r.id, r.ready_for]))).toEqual(
    new Map([
      [a, "things"],
      [b, null],
    ]),
  );
  expect(rows).toHaveLength(2);
  expect(await requestRows(engine, [crypto.randomUUID()])).toEqual([]);
});

test("revives the items of every pipeline of the table, and of no other", async () => {
  const id = await engine.thing();
  const other = await engine.thing();
  await engine.query(
    `insert into millrace.items (item_id, pipeline, state, attempts, finished_at)
     select i.id, p.name, 'dead', 5, now() from things i, (values ('things'), ('checks'), ('elsewhere')) p(name)`,
  );
  await requestRows(engine, [id]);
  const items = await engine.query(
    "select item_id = $1 as it, pipeline, state, attempts from millrace.items where attempts = 0 order by pipeline",
    [id],
  );
  expect(items).toEqual([
    { it: true, pipeline: "checks", state: "failed", attempts: 0 },
    { it: true, pipeline: "things", state: "failed", attempts: 0 },
  ]);
  expect(await itemOf(engine, other)).toMatchObject({ attempts: 5 });
});

test("sent twice it stores the same again", async () => {
  const a = await takeNew(engine);
  await requestRows(engine, [a.id], { to_be_deleted: true });
  expect(await requestRows(engine, [a.id], { to_be_deleted: true })).toEqual([{ id: a.id, ready_for: "things" }]);
});

describe("plain SQL by somebody else", () => {
  const due = async () =>
    (await engine.query<{ s: number | null }>("select extract(epoch from due_at - now())::float8 as s from things"))[0]!
      .s;

  test("that changes what a ready looks at makes the row due at once", async () => {
    await engine.thing();
    await engine.query(later);
    await engine.query("update things set status = 'active'");
    expect(await due()).toBeLessThanOrEqual(0);
  });

  test("also of a dead row, and in the very instant of due_at a microsecond later", async () => {
    await engine.thing();
    await engine.query("update things set due_at = null");
    await engine.query("update things set to_be_deleted = true");
    expect(await due()).toBeLessThanOrEqual(0);
    const client = await engine.database.connect();
    await client.query("begin");
    await client.query("update things set due_at = now()");
    await client.query("update things set status = 'active'");
    const { rows } = await client.query("select (due_at - now())::text as ahead from things");
    await client.query("rollback");
    expect(rows).toEqual([{ ahead: "00:00:00.000001" }]);
  });

  test.each([
    ["sets due_at itself", "status = 'active', due_at = now() + interval '2 h'", 7200],
    ["changes another column", "note = 'x', size = 4, big = 1", 3600],
    ["only locks", "lock_token = gen_random_uuid(), lock_owner = 'x', lock_expires_at = now()", 3600],
    ["writes the value that is there", "status = 'submitted', to_be_deleted = false", 3600],
  ])("that %s leaves due_at alone", async (_, set, seconds) => {
    await engine.thing();
    await engine.query(later);
    await engine.query(`update things set ${set}`);
    expect(await due()).toBeGreaterThan(seconds - 60);
    expect(await due()).toBeLessThanOrEqual(seconds);
  });

  test("that sets due_at to null with it: never due", async () => {
    await engine.thing();
    await engine.query("update things set status = 'active', due_at = null");
    expect(await due()).toBeNull();
  });

  test("while the row is held: the apply keeps it due at once", async () => {
    const id = await engine.thing();
    const { token } = await fetchRows(engine);
    const [claimed] = await claimRows(engine, [{ id, token }]);
    await engine.query("update things set to_be_deleted = true");
    expect(await applyRows(engine, [answer(claimed!, { due: 3600 })])).toMatchObject([{ hint: "things" }]);
    expect(await due()).toBeLessThanOrEqual(0);
  });
});
