import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type EndStep, endRows, itemOf, requestRows, takeAgain, takeNew, thingOf } from "../../support/endings.ts";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { answer, applyRows, claimRows, fetchRows, onClient, untilBlocked } from "../../support/steps.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const steps = ["reset", "fail", "release"] as const satisfies readonly EndStep[];
const states = { reset: "retried", fail: "failed", release: "released" } as const;
const setItem = (values: string) => engine.query(`update millrace.items set ${values}`);
/** Seconds from the ending to the next pass. */
const dueIn = async () =>
  (
    await engine.query<{ s: number | null }>(
      "select extract(epoch from due_at - last_processed_at)::float8 as s from things",
    )
  )[0]!.s;

describe.each(steps)("%s", (step) => {
  test("unlocks the row, ends the item and remembers the token", async () => {
    const a = await takeNew(engine);
    await setItem("prev_lock_expired = true, resets = 0");
    expect(await endRows(engine, step, [a])).toMatchObject([
      { id: a.id, token: a.token, result: "ended", state: states[step], hint: step === "release" ? "things" : null },
    ]);
    expect(await thingOf(engine, a.id)).toMatchObject({ lock_token: null, lock_owner: null, lock_expires_at: null });
    expect(await itemOf(engine, a.id)).toMatchObject({
      state: states[step],
      lock_token: null,
      alive_until: null,
      finished_tokens: [a.token],
      applied_token: null,
      prev_lock_expired: false,
    });
    const [item] = await engine.query("select finished_at is not null as ended from millrace.items");
    expect(item).toEqual({ ended: true });
  });

  test("keeps the applied token of the last accepted apply", async () => {
    const a = await takeNew(engine);
    await applyRows(engine, [answer(a)]);
    const b = await takeAgain(engine, a.id);
    await endRows(engine, step, [b]);
    expect(await itemOf(engine, a.id)).toMatchObject({ applied_token: a.token, finished_tokens: [b.token, a.token] });
  });

  test("a thief that commits while it waits: stale, nothing written; its batch-mate is ended", async () => {
    const [a, b] = [await takeNew(engine), await takeNew(engine)];
    const before = await itemOf(engine, a.id);
    const thief = await engine.database.connect();
    await thief.query("begin");
    await thief.query("update things set lock_token = gen_random_uuid() where id = $1", [a.id]);
    const ending = endRows(engine, step, [a, b]);
    await untilBlocked(engine);
    await thief.query("commit");
    const results = new Map((await ending).map((r) => [r.id, r]));
    expect(results.get(a.id)).toMatchObject({ result: "stale", state: null, attempts: null, hint: null });
    expect(results.get(b.id)).toMatchObject({ result: "ended" });
    expect(await itemOf(engine, a.id)).toEqual(before);
    expect((await thingOf(engine, a.id))!["lock_token"]).not.toBeNull();
  });

  test("waits for a row without holding the item: everybody locks the row first", async () => {
    const a = await takeNew(engine);
    const other = await engine.database.connect();
    await other.query("begin");
    await other.query("select 1 from things for update");
    const ending = endRows(engine, step, [a]);
    await untilBlocked(engine);
    await other.query("select 1 from millrace.items for update nowait");
    await other.query("commit");
    expect(await ending).toMatchObject([{ result: "ended" }]);
  });

  test("an apply under the same token came first: already, and the apply stands", async () => {
    const a = await takeNew(engine);
    const first = await engine.database.connect();
    await first.query("begin");
    await applyRows(engine, [answer(a, { due: 60 })], { run: onClient(first) });
    const ending = endRows(engine, step, [a]);
    await untilBlocked(engine);
    await first.query("commit");
    expect(await ending).toMatchObject([{ result: "already" }]);
    expect(await itemOf(engine, a.id)).toMatchObject({ state: "applied", attempts: 0, applied_token: a.token });
    expect(await dueIn()).toBe(60);
  });

  test("repeated while the first try has not committed, and after the next claim: already, once", async () => {
    const a = await takeNew(engine);
    const first = await engine.database.connect();
    await first.query("begin");
    await endRows(engine, step, [a], { run: onClient(first) });
    const again = endRows(engine, step, [a]);
    await untilBlocked(engine);
    await first.query("commit");
    expect(await again).toMatchObject([{ result: "already" }]);
    const item = await itemOf(engine, a.id);
    expect(await endRows(engine, step, [a])).toMatchObject([{ result: "already" }]);
    expect(await itemOf(engine, a.id)).toEqual(item);
    const b = await takeAgain(engine, a.id);
    expect(await endRows(engine, step, [a])).toMatchObject([{ result: "already", hint: null }]);
    expect(await thingOf(engine, a.id)).toMatchObject({ lock_token: b.token });
  });

  test("the same id under an old and a new token in one batch: each hears its own answer", async () => {
    const old = await takeNew(engine);
    await endRows(engine, step, [old]);
    const now = await takeAgain(engine, old.id);
    const results = await endRows(engine, step, [old, now]);
    expect(new Map(results.map((r) => [r.token, [r.result, r.state]]))).toEqual(
      new Map([
        [old.token, ["already", null]],
        [now.token, ["ended", states[step]]],
      ]),
    );
  });

  test("a request meanwhile is due at once, hinted, and hinted again to a repetition", async () => {
    const a = await takeNew(engine);
    await requestRows(engine, [a.id]);
    expect(await endRows(engine, step, [a])).toMatchObject([{ result: "ended", hint: "things" }]);
    expect(await endRows(engine, step, [a])).toMatchObject([{ result: "already", hint: "things" }]);
    expect(await fetchRows(engine)).toMatchObject({ ids: [a.id] });
  });

  test("an item that nobody knows is ended all the same", async () => {
    const a = await takeNew(engine);
    await engine.query("delete from millrace.items");
    expect(await endRows(engine, step, [a])).toMatchObject([{ result: "ended" }]);
    expect(await thingOf(engine, a.id)).toMatchObject({ lock_token: null });
  });

  test("says when the queue is drained", async () => {
    const a = await takeNew(engine);
    await engine.query("update millrace.pipelines set drain = true");
    expect(await endRows(engine, step, [a])).toMatchObject([{ drained: true }]);
  });
});

describe("reset", () => {
  test("keeps the owner at contention, so that no other pipeline takes the row meanwhile", async () => {
    const a = await takeNew(engine);
    await endRows(engine, "reset", [a], { keep: true });
    expect(await thingOf(engine, a.id)).toMatchObject({
      lock_owner: "things",
      lock_token: null,
      lock_expires_at: null,
    });
    await engine.query("update things set status = 'active', due_at = now()");
    expect(await fetchRows(engine, { pipeline: "checks" })).toMatchObject({ ids: [] });
    await engine.query("update things set status = 'submitted', due_at = now()");
    expect(await fetchRows(engine)).toMatchObject({ ids: [a.id] });
  });

  test("waits 0.5, 1, 2 and then 5 s by consecutive resets, and arms a wake-up for it", async () => {
    let a = await takeNew(engine);
    for (const wait of [0.5, 1, 2, 5, 5]) {
      await engine.query("update millrace.wakeups set wake_at = null");
      expect(await endRows(engine, "reset", [a])).toMatchObject([{ due_in: wait, wake_in: wait }]);
      expect(await dueIn()).toBe(wait);
      a = await takeAgain(engine, a.id);
    }
    await applyRows(engine, [answer(a)]);
    a = await takeAgain(engine, a.id);
    expect(await endRows(engine, "reset", [a])).toMatchObject([{ due_in: 0.5 }]);
  });

  test("arms no wake-up for a row that another pipeline works on by now", async () => {
    const a = await takeNew(engine);
    await engine.past("update things set status = 'active'");
    await engine.query("update things set due_at = $1", [a.seen]);
    await engine.query("update millrace.wakeups set wake_at = null");
    expect(await endRows(engine, "reset", [a])).toMatchObject([{ result: "ended", due_in: 0.5, wake_in: null }]);
  });

  test("a failure in between makes it start over", async () => {
    const a = await takeNew(engine);
    await setItem("resets = 3");
    await endRows(engine, "fail", [a]);
    const b = await takeAgain(engine, a.id);
    expect(await endRows(engine, "reset", [b])).toMatchObject([{ due_in: 0.5 }]);
  });

  test("does not count the attempt, keeps the reason, and the first attempt stays the first", async () => {
    const a = await takeNew(engine);
    expect(a.attempts).toBe(1);
    expect(await endRows(engine, "reset", [a], { reason: "parent is busy" })).toMatchObject([{ attempts: 0 }]);
    expect(await itemOf(engine, a.id)).toMatchObject({ attempts: 0, resets: 1, last_error: "parent is busy" });
    expect((await takeAgain(engine, a.id)).attempts).toBe(1);
  });

  test("never counts below zero", async () => {
    const a = await takeNew(engine);
    await setItem("attempts = 0");
    expect(await endRows(engine, "reset", [a])).toMatchObject([{ attempts: 0 }]);
  });
});

describe("release", () => {
  test("leaves due_at and last_processed_at alone, and does not count the attempt", async () => {
    const a = await takeNew(engine);
    await engine.query("update things set due_at = '2020-01-01', last_processed_at = '2020-01-02'");
    expect(await endRows(engine, "release", [{ ...a, seen: "2020-01-01" }])).toMatchObject([{ attempts: 0 }]);
    const [row] = await engine.query("select due_at::text, last_processed_at::text from things");
    expect(row).toEqual({ due_at: "2020-01-01 00:00:00+00", last_processed_at: "2020-01-02 00:00:00+00" });
  });

  test("hints the pipeline that the row is ready for by now", async () => {
    const id = await engine.thing();
    const { token } = await fetchRows(engine);
    await engine.past("update things set status = 'active'");
    const [claimed] = await claimRows(engine, [{ id, token }]);
    expect(claimed).toMatchObject({ result: "ours", state: null });
    expect(await endRows(engine, "release", [claimed!])).toMatchObject([{ result: "ended", hint: "checks" }]);
  });
});
