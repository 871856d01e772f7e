import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { requestRows, takeNew, thingOf } from "../../support/endings.ts";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { answer, applyRows, fetchRows, onClient, untilBlocked } from "../../support/steps.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

/** Seconds from the apply to the next pass. */
const dueIn = async (id: string) => {
  const [row] = await engine.query<{ s: number | null }>(
    "select extract(epoch from due_at - last_processed_at)::float8 as s from things where id = $1",
    [id],
  );
  return row!.s;
};
const wakeups = () =>
  engine.query<{ s: number | null }>(
    `select extract(epoch from k.wake_at - t.last_processed_at)::float8 as s from millrace.wakeups k, things t
     where k.pipeline = 'things' order by t.last_processed_at desc limit 1`,
  );

describe("the next pass", () => {
  test.each([
    { due: 15, wait: 15, hint: null },
    { due: 0.25, wait: 0.25, hint: null },
    { due: 0, wait: 0, hint: "things" },
    { due: null, wait: null, hint: null },
  ])("an answer of $due seconds: due in $wait, hints $hint", async ({ due, wait, hint }) => {
    const a = await takeNew(engine);
    expect(await applyRows(engine, [answer(a, { due })])).toMatchObject([{ result: "applied", hint }]);
    expect(await dueIn(a.id)).toBe(wait);
  });

  test("a row due at once is fetched at once", async () => {
    const a = await takeNew(engine);
    await applyRows(engine, [answer(a, { due: 0 })]);
    expect(await fetchRows(engine)).toMatchObject({ why: "rows", ids: [a.id] });
  });
});

describe("a due_at that moved since the claim", () => {
  test("earlier than the answer's: stands", async () => {
    const a = await takeNew(engine);
    await engine.query("update things set due_at = now() + interval '5 s'");
    await applyRows(engine, [answer(a, { due: 3600 })]);
    expect((await thingOf(engine, a.id))!["due_in"]).toBeLessThan(6);
  });

  test("later than the answer's: the answer's stands", async () => {
    const a = await takeNew(engine);
    await engine.query("update things set due_at = now() + interval '1 h'");
    await applyRows(engine, [answer(a, { due: 20 })]);
    expect(await dueIn(a.id)).toBe(20);
  });

  test("the answer is null, somebody asked meanwhile: theirs stands, and hints", async () => {
    const a = await takeNew(engine);
    await requestRows(engine, [a.id]);
    expect(await applyRows(engine, [answer(a, { due: null })])).toMatchObject([{ result: "applied", hint: "things" }]);
  });

  test("by one microsecond counts", async () => {
    const a = await takeNew(engine);
    await engine.query("update things set due_at = due_at + interval '1 microsecond'");
    await applyRows(engine, [answer(a, { due: 3600 })]);
    expect((await thingOf(engine, a.id))!["due_in"]).toBeLessThan(0);
  });

  test("a request that has not committed when the apply starts: intent and time survive, and it is hinted", async () => {
    const a = await takeNew(engine);
    const other = await engine.database.connect();
    await other.query("begin");
    await requestRows(engine, [a.id], { to_be_deleted: true }, onClient(other));
    const applying = applyRows(engine, [answer(a, { set: { note: "mine", size: 3 }, due: 3600 })]);
    await untilBlocked(engine);
    await other.query("commit");
    expect(await applying).toMatchObject([{ result: "applied", hint: "things" }]);
    expect(await thingOf(engine, a.id)).toMatchObject({ note: "mine", size: 3, to_be_deleted: true });
    expect(await fetchRows(engine)).toMatchObject({ ids: [a.id] });
  });
});

describe("a changed column that a ready looks at", () => {
  test("makes the row due now and hints the pipeline it is ready for", async () => {
    const a = await takeNew(engine);
    const results = await applyRows(engine, [answer(a, { set: { status: "active" } })]);
    expect(results).toMatchObject([{ result: "applied", hint: "checks" }]);
    expect(await dueIn(a.id)).toBe(0);
  });

  test("not where the answer names a due, the trigger leaves it alone too; the other pipeline arms its wake-up", async () => {
    const a = await takeNew(engine);
    const explicit = { set: { status: "active" }, due_by_default: false };
    expect(await applyRows(engine, [answer(a, { ...explicit, due: 40 })])).toMatchObject([{ hint: "checks" }]);
    expect(await dueIn(a.id)).toBe(40);
  });

  test("an explicit null is kept, by the trigger too", async () => {
    const a = await takeNew(engine);
    const explicit = { set: { status: "active" }, due_by_default: false, due: null };
    expect(await applyRows(engine, [answer(a, explicit)])).toMatchObject([{ result: "applied", hint: null }]);
    expect(await thingOf(engine, a.id)).toMatchObject({ status: "active", due_at: null });
  });

  test("not where the value is the same as before", async () => {
    const a = await takeNew(engine);
    await applyRows(engine, [answer(a, { set: { status: "submitted", to_be_deleted: false } })]);
    expect(await dueIn(a.id)).toBe(15);
  });

  test("not where another column changed, nor for a batch-mate that changed none", async () => {
    const a = await takeNew(engine);
    const b = await takeNew(engine);
    const c = await takeNew(engine);
    await applyRows(engine, [
      answer(a, { set: { note: "other" } }),
      answer(b, { set: { status: "active" } }),
      answer(c),
    ]);
    expect([await dueIn(a.id), await dueIn(b.id), await dueIn(c.id)]).toEqual([15, 0, 15]);
  });

  test("the row left every state: due, but nobody is hinted", async () => {
    const a = await takeNew(engine);
    expect(await applyRows(engine, [answer(a, { set: { status: "failed" } })])).toMatchObject([{ hint: null }]);
  });
});

describe("a repetition", () => {
  test("repeats the hint", async () => {
    const a = await takeNew(engine);
    const apply = answer(a, { set: { status: "active" } });
    await applyRows(engine, [apply]);
    expect(await applyRows(engine, [apply])).toMatchObject([{ result: "already", hint: "checks" }]);
  });

  test("hints nobody while the row is held again, or is not due", async () => {
    const a = await takeNew(engine);
    const apply = answer(a, { due: 0 });
    await applyRows(engine, [apply]);
    await fetchRows(engine);
    expect(await applyRows(engine, [apply])).toMatchObject([{ result: "already", hint: null }]);
    const b = await takeNew(engine);
    await applyRows(engine, [answer(b)]);
    expect(await applyRows(engine, [answer(b)])).toMatchObject([{ result: "already", hint: null }]);
  });
});

describe("the wake-up", () => {
  test("is armed for the earliest of the batch, once", async () => {
    const [a, b, c, d] = [await takeNew(engine), await takeNew(engine), await takeNew(engine), await takeNew(engine)];
    await engine.query("update millrace.wakeups set wake_at = null");
    const first = await applyRows(engine, [answer(a, { due: 30 }), answer(b, { due: 20 })]);
    expect(first.map((r) => r.wake_in)).toEqual([20, 20]);
    expect(await wakeups()).toEqual([{ s: 20 }]);
    expect(await applyRows(engine, [answer(c, { due: 25 })])).toMatchObject([{ wake_in: null }]);
    expect(await applyRows(engine, [answer(d, { due: 10 })])).toMatchObject([{ wake_in: 10 }]);
    expect(await wakeups()).toEqual([{ s: 10 }]);
  });

  test("is armed anew where the last one lies behind or is just firing", async () => {
    for (const at of ["now() - interval '1 min'", "now() + interval '1.5 s'"]) {
      const a = await takeNew(engine);
      await engine.query(`update millrace.wakeups set wake_at = ${at}`);
      expect(await applyRows(engine, [answer(a, { due: 30 })])).toMatchObject([{ wake_in: 30 }]);
    }
  });

  test("is a chain beyond the longest delay of a queue", async () => {
    const a = await takeNew(engine);
    await engine.query("update millrace.wakeups set wake_at = null");
    expect(await applyRows(engine, [answer(a, { due: 3600 })])).toMatchObject([{ wake_in: 3600 }]);
    expect(await wakeups()).toEqual([{ s: 900 }]);
  });

  test("is sent unarmed where somebody has its row: nobody waits for it", async () => {
    const a = await takeNew(engine);
    await engine.query("update millrace.wakeups set wake_at = null");
    const other = await engine.database.connect();
    await other.query("begin");
    await other.query("select 1 from millrace.wakeups for update");
    expect(await applyRows(engine, [answer(a, { due: 30 })])).toMatchObject([{ result: "applied", wake_in: 30 }]);
    await other.query("rollback");
    expect(await wakeups()).toEqual([{ s: null }]);
  });

  test("is not for a row that another pipeline wants, that is due now, or that is never due", async () => {
    const [a, b, c] = [await takeNew(engine), await takeNew(engine), await takeNew(engine)];
    await engine.query("update millrace.wakeups set wake_at = null");
    const results = await applyRows(engine, [
      answer(a, { set: { status: "active" }, due: 30, due_by_default: false }),
      answer(b, { due: 0 }),
      answer(c, { due: null }),
    ]);
    expect(results.map((r) => r.wake_in)).toEqual([null, null, null]);
  });
});

describe("drained", () => {
  test.each([
    { drain: true, waiting: 9, drained: true },
    { drain: true, waiting: 10, drained: false },
    { drain: false, waiting: 0, drained: false },
  ])("the last fetch stopped at a full queue: $drain, $waiting wait: $drained", async ({ drain, waiting, drained }) => {
    const a = await takeNew(engine);
    await engine.query("update millrace.pipelines set drain = $1", [drain]);
    await engine.query(
      `insert into millrace.items (item_id, pipeline, state, alive_until)
       select gen_random_uuid(), 'things', 'queued', now() + interval '1 min' from generate_series(1, $1)`,
      [waiting],
    );
    expect(await applyRows(engine, [answer(a)])).toMatchObject([{ drained }]);
  });
});
