import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { backfill } from "../../../lib/index.ts";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { impatientClock } from "../../support/migrations.ts";
import { until } from "../../support/until.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(async () => {
  await engine.clear();
  await engine.query("insert into things (size) select g from generate_series(1, 25) g");
});

const job = { table: "things", set: sql`note = 'done'`, where: sql`t.note is null`, batchSize: 10 };
const done = async () => (await engine.query("select 1 from things where note = 'done'")).length;

test("sets all rows that need it, batch by batch in statements of their own, and says how far it is", async () => {
  const steps: unknown[] = [];
  const rows = await backfill(engine.owner, {
    ...job,
    progress: async (n) => void steps.push([n, await done()]),
  });
  expect(rows).toBe(25);
  expect(steps).toEqual([
    [10, 10],
    [20, 20],
    [25, 25],
  ]);
});

test("leaves the others alone, and a second run has nothing to do", async () => {
  await engine.query("update things set note = 'mine' where size > 20");
  expect(await backfill(engine.owner, job)).toBe(20);
  expect(await backfill(engine.owner, job)).toBe(0);
  expect(await engine.query("select 1 from things where note = 'mine'")).toHaveLength(5);
});

test("stopped halfway, the next run does the rest", async () => {
  const stop = () => {
    throw new Error("stop");
  };
  await expect(backfill(engine.owner, { ...job, progress: stop })).rejects.toThrow("stop");
  expect(await done()).toBe(10);
  expect(await backfill(engine.owner, job)).toBe(15);
  expect(await done()).toBe(25);
});

test("a row that no longer needs it when its lock is had is left alone", async () => {
  const other = await engine.database.connect();
  await other.query("begin");
  await other.query("update things set note = 'theirs' where size = 7");
  const running = backfill(engine.owner, job);
  await until(
    async () =>
      (
        await engine.admin(
          "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
        )
      ).length,
    { what: "the backfill to wait" },
  );
  await other.query("commit");
  expect(await running).toBe(24);
  expect(await engine.query("select note from things where size = 7")).toEqual([{ note: "theirs" }]);
});

test("with a clock, held rows are waited for, and nobody's lock is written past", async () => {
  const hold =
    "update things set lock_owner = 'things', lock_token = gen_random_uuid(), lock_expires_at = now() + interval '1 h' where size";
  await engine.query(`${hold} in (3, 12)`);
  await expect(backfill(engine.owner, job)).rejects.toMatchObject({ code: "ROW_FENCED" });
  // in the order of random ids, what comes before the first held row may be done
  const before = await done();
  const unlock = ["lock_token = null", "lock_expires_at = now() - interval '1 s'"];
  const found: number[] = [];
  const whenFree = impatientClock(async () => {
    found.push(await done());
    await engine.query(`update things set ${unlock.shift()} where size = ${unlock.length === 1 ? 3 : 12}`);
  });
  expect(await backfill(engine.owner, { ...job, whenFree })).toBe(25 - before);
  expect(found).toEqual([23, 24]);
  const rows = await engine.query("select lock_token, lock_owner from things where size in (3, 12) order by size");
  expect(rows).toEqual([
    { lock_token: null, lock_owner: "things" },
    { lock_token: null, lock_owner: null },
  ]);
});

test("an empty table is done at once", async () => {
  await engine.query("truncate things");
  expect(await backfill(engine.owner, job)).toBe(0);
});
