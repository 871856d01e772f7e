import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { itemOf, requestRows, takeAgain, takeNew, thingOf } from "../../support/endings.ts";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { answer, applyRows, claimRows, fetchRows, onClient, untilBlocked } from "../../support/steps.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const steal = "update things set lock_token = gen_random_uuid() where id = $1";
const logOf = (of: { id: string; token: string }, message = "m") => ({
  table: "logs",
  columns: ["message"],
  rows: [{ item: of.id, token: of.token, row: { message }, nows: [] }],
});
const logs = async () => (await engine.query("select message from logs")).length;

describe("a thief that has not committed", () => {
  test("commits: the apply waits, is stale and writes nothing; its batch-mates are applied", async () => {
    const [a, b, c] = [await takeNew(engine), await takeNew(engine), await takeNew(engine)] as const;
    const thief = await engine.database.connect();
    await thief.query("begin");
    await thief.query(steal, [b.id]);
    const set = { note: "mine" };
    const applying = applyRows(
      engine,
      [a, b, c].map((x) => answer(x, { set })),
      { inserts: [logOf(b)] },
    );
    await untilBlocked(engine);
    await thief.query("commit");
    const results = new Map((await applying).map((r) => [r.id, r.result]));
    expect([a, b, c].map((x) => results.get(x.id))).toEqual(["applied", "stale", "applied"]);
    expect(await thingOf(engine, b.id)).toMatchObject({ note: null });
    expect((await itemOf(engine, b.id))["state"]).toBe("processing");
    expect(await logs()).toBe(0);
  });

  test("rolls back: applied", async () => {
    const a = await takeNew(engine);
    const thief = await engine.database.connect();
    await thief.query("begin");
    await thief.query(steal, [a.id]);
    const applying = applyRows(engine, [answer(a, { set: { note: "mine" } })]);
    await untilBlocked(engine);
    await thief.query("rollback");
    expect(await applying).toMatchObject([{ result: "applied" }]);
    expect(await thingOf(engine, a.id)).toMatchObject({ note: "mine", lock_token: null });
  });

  test("has deleted the row: stale", async () => {
    const a = await takeNew(engine);
    const thief = await engine.database.connect();
    await thief.query("begin");
    await thief.query("select set_config('millrace.deleting', 'on', true)");
    await thief.query("delete from things where id = $1", [a.id]);
    const applying = applyRows(engine, [answer(a)], { inserts: [logOf(a)] });
    await untilBlocked(engine);
    await thief.query("commit");
    expect(await applying).toMatchObject([{ result: "stale" }]);
    expect(await logs()).toBe(0);
  });
});

test("a lock that is merely extended meanwhile does not make the apply stale", async () => {
  const a = await takeNew(engine);
  const other = await engine.database.connect();
  await other.query("begin");
  await other.query("update things set lock_expires_at = now() + interval '30 s'");
  const applying = applyRows(engine, [answer(a)]);
  await untilBlocked(engine);
  await other.query("commit");
  expect(await applying).toMatchObject([{ result: "applied" }]);
});

test("the same id under its old and its new token in one batch: each hears its own answer", async () => {
  const old = await takeNew(engine);
  await applyRows(engine, [answer(old, { due: 0 })], { inserts: [logOf(old)] });
  const now = await takeAgain(engine, old.id);
  const results = await applyRows(engine, [answer(now), answer(old)], { inserts: [logOf(old), logOf(now)] });
  expect(new Map(results.map((r) => [r.token, r.result]))).toEqual(
    new Map([
      [now.token, "applied"],
      [old.token, "already"],
    ]),
  );
  expect(await logs()).toBe(2);
});

describe("repeated", () => {
  test("while the first try has not committed: waits, already, one insert", async () => {
    const a = await takeNew(engine);
    const first = await engine.database.connect();
    await first.query("begin");
    await applyRows(engine, [answer(a)], { inserts: [logOf(a)], run: onClient(first) });
    const again = applyRows(engine, [answer(a)], { inserts: [logOf(a)] });
    await untilBlocked(engine);
    await first.query("commit");
    expect(await again).toMatchObject([{ result: "already" }]);
    expect(await logs()).toBe(1);
  });

  test("while the first try rolls back: applied", async () => {
    const a = await takeNew(engine);
    const first = await engine.database.connect();
    await first.query("begin");
    await applyRows(engine, [answer(a)], { run: onClient(first) });
    const again = applyRows(engine, [answer(a)]);
    await untilBlocked(engine);
    await first.query("rollback");
    expect(await again).toMatchObject([{ result: "applied" }]);
  });

  test("after the next fetch, the next claim and two later finishes: already; after a third, of which three tokens are kept: stale", async () => {
    const a = await takeNew(engine);
    const first = answer(a, { due: 0, set: { note: "first" } });
    const again = async () => (await applyRows(engine, [first], { inserts: [logOf(a)] }))[0]?.result;
    expect(await again()).toBe("applied");
    const { token } = await fetchRows(engine);
    expect(await again()).toBe("already");
    let [claimed] = await claimRows(engine, [{ id: a.id, token }]);
    expect(await again()).toBe("already");
    for (let finishes = 1; finishes <= 3; finishes++) {
      expect(await applyRows(engine, [answer(claimed!, { set: { note: "later" } })])).toMatchObject([
        { result: "applied" },
      ]);
      expect(await again()).toBe(finishes < 3 ? "already" : "stale");
      claimed = await takeAgain(engine, a.id);
    }
    expect(await thingOf(engine, a.id)).toMatchObject({ note: "later" });
    expect(await logs()).toBe(1);
  });
});

describe("an accepted apply", () => {
  test("clears attempts, resets, error and suspicion, and keeps its token as the applied one", async () => {
    const a = await takeNew(engine);
    await engine.query(
      "update millrace.items set attempts = 4, resets = 3, last_error = 'e', prev_lock_expired = true, applied_token = null",
    );
    await applyRows(engine, [answer(a)]);
    expect(await itemOf(engine, a.id)).toMatchObject({
      state: "applied",
      attempts: 0,
      resets: 0,
      last_error: null,
      prev_lock_expired: false,
      applied_token: a.token,
      finished_tokens: [a.token],
      lock_token: null,
      alive_until: null,
    });
    expect(await thingOf(engine, a.id)).toMatchObject({ lock_token: null, lock_owner: null, lock_expires_at: null });
  });

  test("writes last_processed_at; a stale one leaves everything as it was", async () => {
    const a = await takeNew(engine);
    await engine.query("update things set last_processed_at = '2020-01-01', lock_token = gen_random_uuid()");
    const before = [await thingOf(engine, a.id), await itemOf(engine, a.id)];
    const { due_in: _, ...row } = before[0]!;
    await applyRows(engine, [answer(a, { set: { note: "x" }, nows: ["seen_at"] })], { inserts: [logOf(a)] });
    expect(await thingOf(engine, a.id)).toMatchObject(row);
    expect(await itemOf(engine, a.id)).toEqual(before[1]);
    await engine.query("update things set lock_token = $1", [a.token]);
    await applyRows(engine, [answer(a)]);
    expect(await engine.query("select now() - last_processed_at < interval '1 min' as fresh from things")).toEqual([
      { fresh: true },
    ]);
  });

  test("is independent of whether the item is known", async () => {
    const a = await takeNew(engine);
    await engine.query("delete from millrace.items");
    expect(await applyRows(engine, [answer(a)])).toMatchObject([{ result: "applied" }]);
  });
});

test("an apply that waits for a row holds no item meanwhile: everybody locks the row first", async () => {
  const a = await takeNew(engine);
  const other = await engine.database.connect();
  await other.query("begin");
  await other.query("select 1 from things for update");
  const applying = applyRows(engine, [answer(a)]);
  await untilBlocked(engine);
  await other.query("select 1 from millrace.items for update nowait");
  await other.query("commit");
  expect(await applying).toMatchObject([{ result: "applied" }]);
});

test("two applies and a request over the same rows, in different orders and at the same time, never deadlock", async () => {
  const taken = [];
  for (let n = 0; n < 10; n++) taken.push(await takeNew(engine));
  const forward = taken.map((t) => answer(t, { set: { note: "n" } }));
  const rounds = [forward, [...forward].reverse(), forward.slice(5), [...forward].reverse().slice(3)];
  const before = await engine.admin("select deadlocks from pg_stat_database where datname = current_database()");
  const results = await Promise.all([
    ...rounds.map((r) => applyRows(engine, r)),
    requestRows(
      engine,
      [...taken].reverse().map((t) => t.id),
      { to_be_deleted: true },
    ),
  ]);
  for (const { id } of taken) {
    const answers = results.flat().filter((r) => r.id === id && "result" in r);
    expect(answers.filter((r) => "result" in r && r.result === "applied")).toHaveLength(1);
  }
  expect(await engine.admin("select deadlocks from pg_stat_database where datname = current_database()")).toEqual(
    before,
  );
});
