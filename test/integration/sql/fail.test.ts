import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { endRows, itemOf, requestRows, takeAgain, takeNew, thingOf } from "../../support/endings.ts";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { fetchRows, onClient, untilBlocked } from "../../support/steps.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine({ maxAttempts: 5 });
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const attempts = (n: number) => engine.query("update millrace.items set attempts = $1", [n]);

describe("back-off", () => {
  test.each([
    [1, 1],
    [2, 2],
    [3, 4],
    [9, 256],
    [10, 300],
    [2_000_000_000, 300],
  ])("after %i attempts about %i s, give or take a fifth", async (count, seconds) => {
    const a = await takeAgain(engine, await engine.thing({ status: "active" }), "checks");
    await attempts(count);
    const [row] = await endRows(engine, "fail", [a], { pipeline: "checks" });
    expect(row).toMatchObject({ state: "failed", attempts: count, hint: null });
    expect(row!.due_in).toBeGreaterThanOrEqual(seconds * 0.8);
    expect(row!.due_in).toBeLessThanOrEqual(seconds * 1.2);
    const [written] = await engine.query<{ s: number }>(
      "select extract(epoch from due_at - last_processed_at)::float8 as s from things",
    );
    expect(written!.s).toBe(row!.due_in);
  });

  test("differs from row to row of one batch", async () => {
    const taken = [];
    for (let n = 0; n < 8; n++) taken.push(await takeNew(engine));
    const rows = await endRows(engine, "fail", taken);
    expect(new Set(rows.map((r) => r.due_in)).size).toBe(8);
  });

  test("keeps the error, counts the attempt, and forgets resets", async () => {
    const a = await takeNew(engine);
    await engine.query("update millrace.items set resets = 2");
    await endRows(engine, "fail", [a], { reason: "no quota" });
    expect(await itemOf(engine, a.id)).toMatchObject({ attempts: 1, resets: 0, last_error: "no quota" });
    expect((await takeAgain(engine, a.id)).attempts).toBe(2);
  });

  test("the row is left alone until then, and a wake-up is armed", async () => {
    const a = await takeNew(engine);
    await engine.query("update millrace.wakeups set wake_at = null");
    const [row] = await endRows(engine, "fail", [a]);
    expect(row!.wake_in).toBe(row!.due_in);
    expect(await fetchRows(engine)).toMatchObject({ ids: [] });
  });
});

describe("after maxAttempts", () => {
  test("the row is dead: due never, fetched by nobody", async () => {
    const a = await takeNew(engine);
    await attempts(5);
    expect(await endRows(engine, "fail", [a])).toMatchObject([{ state: "dead", due_in: null, wake_in: null }]);
    expect(await thingOf(engine, a.id)).toMatchObject({ due_at: null, lock_token: null });
    expect(await fetchRows(engine)).toMatchObject({ ids: [] });
  });

  test("not before", async () => {
    const a = await takeNew(engine);
    await attempts(4);
    expect(await endRows(engine, "fail", [a])).toMatchObject([{ state: "failed" }]);
  });

  test("only the item that reached it, not its batch-mates", async () => {
    const [a, b] = [await takeNew(engine), await takeNew(engine)];
    await engine.query("update millrace.items set attempts = 5 where item_id = $1", [a.id]);
    const states = new Map((await endRows(engine, "fail", [a, b])).map((r) => [r.id, r.state]));
    expect([states.get(a.id), states.get(b.id)]).toEqual(["dead", "failed"]);
  });

  test("somebody asked for it meanwhile: not dead, attempts from zero, due at once and hinted", async () => {
    const a = await takeNew(engine);
    await attempts(5);
    await requestRows(engine, [a.id]);
    expect(await endRows(engine, "fail", [a])).toMatchObject([{ state: "failed", attempts: 0, hint: "things" }]);
    expect(await fetchRows(engine)).toMatchObject({ ids: [a.id] });
  });

  test("a request that commits while the failure waits for the row counts as well", async () => {
    const a = await takeNew(engine);
    await attempts(5);
    const other = await engine.database.connect();
    await other.query("begin");
    await requestRows(engine, [a.id], { to_be_deleted: true }, onClient(other));
    const failing = endRows(engine, "fail", [a]);
    await untilBlocked(engine);
    await other.query("commit");
    expect(await failing).toMatchObject([{ state: "failed", attempts: 0, hint: "things" }]);
  });

  test("plain SQL that changes what a ready looks at counts as a request", async () => {
    const a = await takeNew(engine);
    await attempts(5);
    await engine.query("update things set to_be_deleted = true");
    expect(await endRows(engine, "fail", [a])).toMatchObject([{ state: "failed", hint: "things" }]);
  });

  test("an item that nobody knows has had its first attempt", async () => {
    const a = await takeNew(engine);
    await engine.query("delete from millrace.items");
    const [row] = await endRows(engine, "fail", [a]);
    expect(row!.due_in).toBeLessThanOrEqual(1.2);
  });
});
