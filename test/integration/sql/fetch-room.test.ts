import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { fetchSql } from "../../../lib/sql/fetch.ts";
import { scopeOf } from "../../../lib/sql/parts.ts";
import { createEngine, type TestEngine, things } from "../../support/engine.ts";
import { fetchRows } from "../../support/steps.ts";
import { lockOf, queueRows } from "../../support/upkeep.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine({ workers: 2 });
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

/** workers × 2 */
const LIMIT = 4;

/** Items of which nothing but their place in the queue is known. */
async function items(
  count: number,
  state: string,
  alive: string,
  more: { pipeline?: string; finished?: boolean } = {},
) {
  await engine.query(
    `insert into millrace.items (item_id, pipeline, state, lock_token, alive_until, finished_at)
     select gen_random_uuid(), $2, $3, gen_random_uuid(), now() + $4::interval, case when $5 then now() end from generate_series(1, $1)`,
    [count, more.pipeline ?? "things", state, alive, more.finished ?? false],
  );
}

async function fetchOfMany() {
  for (let n = 0; n < 2 * LIMIT; n++) await engine.thing();
  return fetchRows(engine);
}

async function drain(): Promise<boolean> {
  const [row] = await engine.query<{ drain: boolean }>("select drain from millrace.pipelines where name = 'things'");
  return row!.drain;
}

test.each(["locked", "queued"])("%s items that are alive take room", async (state) => {
  await items(3, state, "1 s");
  expect((await fetchOfMany()).ids).toHaveLength(LIMIT - 3);
});

test.each([
  ["in process", "processing", "1 min", {}],
  ["queued, whose time is over", "queued", "-1 s", {}],
  ["of another pipeline", "queued", "1 min", { pipeline: "checks" }],
  ["that are finished", "queued", "1 min", { finished: true }],
])("items %s take no room", async (_, state, alive, more) => {
  await items(3, state, alive, more);
  expect((await fetchOfMany()).ids).toHaveLength(LIMIT);
});

test("a full queue answers full, takes nothing and asks for the next fetch", async () => {
  await items(LIMIT, "queued", "1 min");
  const id = await engine.thing();
  expect(await fetchRows(engine)).toMatchObject({ why: "full", ids: [] });
  expect((await lockOf(engine, id)).token).toBeNull();
  expect(await drain()).toBe(true);
});

test("more items than the limit leave no room either", async () => {
  await items(LIMIT + 2, "queued", "1 min");
  expect(await fetchOfMany()).toMatchObject({ why: "full", ids: [] });
});

test("a fetch that fills the queue asks for the next; one that does not clears the mark", async () => {
  expect(await fetchOfMany()).toMatchObject({ why: "rows" });
  expect(await drain()).toBe(true);
  await engine.clear();
  await engine.query("update millrace.pipelines set drain = true");
  await engine.thing();
  expect(await fetchRows(engine)).toMatchObject({ why: "rows" });
  expect(await drain()).toBe(false);
  await engine.query("update millrace.pipelines set drain = true");
  expect(await fetchRows(engine)).toMatchObject({ why: "empty" });
  expect(await drain()).toBe(false);
});

test("a fetch of one pipeline leaves the mark of the others alone", async () => {
  await engine.query("update millrace.pipelines set drain = true");
  await fetchRows(engine);
  expect(await engine.query("select name, drain from millrace.pipelines order by name")).toEqual([
    { name: "checks", drain: true },
    { name: "things", drain: false },
  ]);
});

test("a repetition does not clear the mark that the first has set", async () => {
  const { token } = await fetchOfMany();
  await engine.query(
    "update millrace.items set state = 'processing' where item_id = (select min(item_id::text)::uuid from millrace.items)",
  );
  expect((await fetchRows(engine, { token })).ids).toHaveLength(LIMIT - 1);
  expect(await drain()).toBe(true);
});

test("a paused pipeline takes nothing and keeps its mark", async () => {
  const id = await engine.thing();
  await engine.query("update millrace.pipelines set paused_at = now(), drain = true where name = 'things'");
  expect(await fetchRows(engine)).toMatchObject({ why: "paused", ids: [], wake_in: null });
  expect((await lockOf(engine, id)).token).toBeNull();
  expect(await drain()).toBe(true);
  await engine.query("update millrace.pipelines set paused_at = null");
  expect(await fetchRows(engine)).toMatchObject({ why: "rows", ids: [id] });
});

test("pausing one pipeline does not stop another", async () => {
  const id = await engine.thing({ status: "active" });
  await engine.query("update millrace.pipelines set paused_at = now() where name = 'things'");
  expect(await fetchRows(engine, { pipeline: "checks" })).toMatchObject({ why: "rows", ids: [id] });
});

test("a pipeline without a row in the database is unknown and takes nothing", async () => {
  await engine.thing();
  const ghost = things.pipeline(
    "ghosts",
    { haunt: things.state({ ready: (eb) => eb("status", "=", "submitted"), process: ({ apply }) => apply({}) }) },
    { workers: 2 },
  );
  const [row] = await engine.run(
    fetchSql(scopeOf(engine.registry, ghost), { token: crypto.randomUUID(), accepted: [], scheduled: false }),
  );
  expect(row).toMatchObject({ why: "unknown", ids: "[]" });
  expect(await engine.query("select 1 from things where lock_token is not null")).toEqual([]);
});

test("the time of a fetch is noted, but for one that was paused", async () => {
  const fetchedAt = async () =>
    (
      await engine.query<{ at: Date | null }>("select fetched_at as at from millrace.pipelines where name = 'things'")
    )[0]!.at;
  await engine.query("update millrace.pipelines set paused_at = now()");
  await fetchRows(engine);
  expect(await fetchedAt()).toBeNull();
  await engine.query("update millrace.pipelines set paused_at = null");
  await fetchRows(engine);
  expect(await fetchedAt()).not.toBeNull();
});

test("a queue that was emptied is filled again", async () => {
  await fetchOfMany();
  await engine.query("update millrace.items set state = 'processing'");
  expect(await queueRows(engine)).toHaveLength(LIMIT);
  expect(await fetchRows(engine)).toMatchObject({ why: "full" });
});
