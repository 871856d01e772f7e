import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { itemSql, pauseSql, resumeSql, statusSql } from "../../../lib/sql/operate.ts";
import { endRows, takeNew } from "../../support/endings.ts";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { fetchRows } from "../../support/steps.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const pause = (pipeline: string, by: string | null = null) => engine.run(pauseSql(pipeline, by));
const resume = (pipeline: string) => engine.run(resumeSql(pipeline));
const status = () => engine.run(statusSql());

describe("pause", () => {
  test("stops the fetcher of that pipeline, and of no other; resume lets it go on", async () => {
    const id = await engine.thing();
    const active = await engine.thing({ status: "active" });
    expect(await pause("things", "me")).toEqual([{ name: "things" }]);
    expect(await fetchRows(engine)).toMatchObject({ why: "paused", ids: [] });
    expect(await fetchRows(engine, { pipeline: "checks" })).toMatchObject({ ids: [active] });
    expect(await resume("things")).toEqual([{ name: "things" }]);
    expect(await fetchRows(engine)).toMatchObject({ why: "rows", ids: [id] });
  });

  test("once more keeps who was first, and since when", async () => {
    await pause("things", "first");
    const [before] = await status().then((all) => all.filter((p) => p.name === "things"));
    await pause("things", "second");
    const [after] = await status().then((all) => all.filter((p) => p.name === "things"));
    expect(after).toEqual(before);
    expect(after).toMatchObject({ paused_by: "first", paused_at: expect.any(Date) });
    await resume("things");
    expect((await status())[1]).toMatchObject({ paused_by: null, paused_at: null });
    await pause("things");
    expect((await status())[1]).toMatchObject({ paused_by: null, paused_at: expect.any(Date) });
  });

  test("clears the armed wake-up of that pipeline, which would hold the next one back", async () => {
    await engine.query("update millrace.wakeups set wake_at = now() + interval '5 min'");
    await pause("things");
    expect(await engine.query("select pipeline from millrace.wakeups where wake_at is not null")).toEqual([
      { pipeline: "checks" },
    ]);
  });

  test("nobody knows the pipeline: no answer", async () => {
    expect(await pause("nobody")).toEqual([]);
    expect(await resume("nobody")).toEqual([]);
  });
});

describe("status", () => {
  test("lists every pipeline by name, at rest too", async () => {
    const rest = { paused_at: null, paused_by: null, fetched_at: null };
    const none = { locked: 0, queued: 0, processing: 0, failed: 0, dead: 0 };
    expect(await status()).toEqual([
      { name: "checks", ...rest, ...none },
      { name: "things", ...rest, ...none },
    ]);
  });

  test("counts what is in flight by state, and what has failed or is dead", async () => {
    await engine.query(
      `insert into millrace.items (item_id, pipeline, state, finished_at) select gen_random_uuid(), v.p, v.s, case when v.over then now() end from (values
        ('things', 'locked', false), ('things', 'queued', false), ('things', 'queued', false), ('things', 'processing', false),
        ('things', 'failed', true), ('things', 'dead', true), ('things', 'applied', true), ('things', 'retried', true),
        ('checks', 'processing', false)) v(p, s, over)`,
    );
    expect(await status()).toMatchObject([
      { name: "checks", locked: 0, queued: 0, processing: 1, failed: 0, dead: 0 },
      { name: "things", locked: 1, queued: 2, processing: 1, failed: 1, dead: 1 },
    ]);
  });

  test("says when the last fetch was", async () => {
    await fetchRows(engine);
    expect((await status())[1]!.fetched_at).toBeInstanceOf(Date);
  });
});

test("what is remembered of one row", async () => {
  const a = await takeNew(engine);
  expect(await engine.run(itemSql("things", a.id))).toEqual([
    { state: "processing", attempts: 1, last_error: null, worker: "test worker" },
  ]);
  await endRows(engine, "fail", [a], { reason: "no quota" });
  expect(await engine.run(itemSql("things", a.id))).toMatchObject([{ state: "failed", last_error: "no quota" }]);
  expect(await engine.run(itemSql("checks", a.id))).toEqual([]);
});
