import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { openTransaction, stopReads } from "../../support/overlap.ts";
import { type Fetched, fetchRows, untilBlocked } from "../../support/steps.ts";
import { lockOf } from "../../support/upkeep.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine({ workers: 4 });
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

/** workers × 2 */
const LIMIT = 8;

test("a fetch beside an uncommitted one is busy, takes nothing and does not wait", async () => {
  await engine.thing();
  await using other = await openTransaction(engine);
  const first = await fetchRows(engine, { run: other.run });
  await engine.thing();
  expect(await fetchRows(engine)).toMatchObject({ why: "busy", ids: [] });
  await other.commit();
  expect(first.ids).toHaveLength(1);
  expect(await fetchRows(engine)).toMatchObject({ why: "rows" });
});

test("fetches of two pipelines do not hinder each other", async () => {
  await engine.thing();
  await engine.thing({ status: "active" });
  await using other = await openTransaction(engine);
  await fetchRows(engine, { run: other.run });
  expect(await fetchRows(engine, { pipeline: "checks" })).toMatchObject({ why: "rows" });
});

test("a fetch whose snapshot is older than the last fetch is busy: it would not count that one's rows", async () => {
  for (let n = 0; n < LIMIT; n++) await engine.thing();
  await using reads = await stopReads(engine, "millrace.pipelines");
  const slow = fetchRows(engine);
  await untilBlocked(engine);
  // more urgent rows, which the slow one does not see, fill the queue
  for (let n = 0; n < LIMIT; n++) await engine.thing({ due_at: "2020-01-01" });
  await using other = await openTransaction(engine);
  expect((await fetchRows(engine, { run: other.run })).ids).toHaveLength(LIMIT);
  await other.commit();
  await reads.goOn();
  expect(await slow).toMatchObject({ why: "busy", ids: [] });
  const [mark] = await engine.query("select drain from millrace.pipelines where name = 'things'");
  expect(mark).toEqual({ drain: true });
});

test("eight racing fetchers take every row once and never more than there is room for", async () => {
  const ids: string[] = [];
  for (let n = 0; n < 40; n++) ids.push(await engine.thing());
  const taken: string[] = [];
  let high = 0;
  const fetcher = async () => {
    for (;;) {
      const fetched: Fetched = await fetchRows(engine);
      if (fetched.why === "busy") continue;
      if (fetched.why === "empty" && taken.length === ids.length) return;
      taken.push(...fetched.ids);
      const [flight] = await engine.query<{ n: number }>(
        "select count(*)::int as n from millrace.items where state = 'locked' and finished_at is null",
      );
      high = Math.max(high, flight!.n);
      // they are processed, which makes room
      await engine.query(
        "update millrace.items set state = 'applied', finished_at = now() where item_id = any ($1::uuid[])",
        [fetched.ids],
      );
    }
  };
  await Promise.all(Array.from({ length: 8 }, fetcher));
  expect(taken.toSorted()).toEqual(ids.toSorted());
  expect(high).toBeLessThanOrEqual(LIMIT);
});

test("a row that an open transaction has locked is left out without waiting", async () => {
  const [locked, free] = [await engine.thing(), await engine.thing()];
  await using other = await openTransaction(engine);
  await other.query("select 1 from things where id = $1 for no key update", [locked]);
  expect((await fetchRows(engine)).ids).toEqual([free]);
  await other.commit();
  expect((await fetchRows(engine)).ids).toEqual([locked]);
});

test.each([
  ["left its state", "status = 'checked'"],
  ["is not due any more", "due_at = now() + interval '1 hour'"],
  ["is held by somebody", "lock_token = gen_random_uuid(), lock_expires_at = now() + interval '1 min'"],
  ["is owned by another pipeline", "lock_owner = 'checks'"],
])("a row that %s since the snapshot is not taken", async (_, change) => {
  const id = await engine.thing();
  await using reads = await stopReads(engine, "things");
  const fetching = fetchRows(engine);
  await untilBlocked(engine);
  await engine.query(`update things set ${change}`);
  const { token, owner } = await lockOf(engine, id);
  await reads.goOn();
  expect(await fetching).toMatchObject({ why: "empty", ids: [] });
  expect(await lockOf(engine, id)).toMatchObject({ token, owner });
});

test("a row that was changed since the snapshot, and still is ready, is taken", async () => {
  const id = await engine.thing();
  await using reads = await stopReads(engine, "things");
  const fetching = fetchRows(engine);
  await untilBlocked(engine);
  await engine.query("update things set note = 'new'");
  await reads.goOn();
  expect((await fetching).ids).toEqual([id]);
});
