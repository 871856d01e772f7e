import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { answer, applyRows, claimRows } from "../../support/steps.ts";
import { itemOf, lockOf, queueRows } from "../../support/upkeep.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine({ workers: 4 });
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const suspect = (id: string) =>
  engine.query("update millrace.items set prev_lock_expired = true where item_id = $1", [id]);

test("a suspect is left to be claimed alone, its batch-mates are claimed", async () => {
  const [bad, good] = [await engine.thing(), await engine.thing()];
  const keys = await queueRows(engine);
  await suspect(bad);
  const claimed = await claimRows(engine, keys);
  expect(claimed.find((c) => c.id === bad)).toMatchObject({ result: "alone" });
  expect(claimed.find((c) => c.id === good)).toMatchObject({ result: "ours" });
  const key = keys.find((k) => k.id === bad)!;
  expect(await lockOf(engine, bad)).toMatchObject({ token: key.token });
  expect(await itemOf(engine, bad)).toMatchObject({ state: "queued", token: key.token, attempts: 0 });
  expect(await claimRows(engine, [key], { alone: true })).toMatchObject([{ result: "ours", attempts: 1 }]);
});

test("the claim of a suspect alone, repeated, is still ours", async () => {
  const id = await engine.thing();
  const [key] = await queueRows(engine);
  await suspect(id);
  const next = crypto.randomUUID();
  await claimRows(engine, [{ ...key!, next }], { alone: true });
  expect(await claimRows(engine, [{ ...key!, next }])).toMatchObject([{ result: "ours", attempts: 1 }]);
});

test("two deliveries of a suspect: one is to be claimed alone, the other stale", async () => {
  const id = await engine.thing();
  const [key] = await queueRows(engine);
  await suspect(id);
  const claimed = await claimRows(engine, [key!, key!]);
  expect(claimed.map((c) => c.result).toSorted()).toEqual(["alone", "stale"]);
});

test.each([
  ["another state", "to_be_deleted = true", "remove"],
  ["another pipeline's state", "status = 'active'", null],
  ["no state", "status = 'checked'", null],
])("the answer names the state that the row is in now: %s", async (_, change, state) => {
  await engine.thing();
  const keys = await queueRows(engine);
  await engine.past(`update things set ${change}`);
  expect(await claimRows(engine, keys)).toMatchObject([{ result: "ours", state }]);
});

test("due_at is answered to the microsecond", async () => {
  await engine.thing({ due_at: "2024-02-29 12:34:56.123457+00" });
  const [claimed] = await claimRows(engine, await queueRows(engine));
  expect(claimed!.seen).toMatch(/^2024-02-29 12:34:56\.123457/);
  const [same] = await engine.query(
    "select t.due_at = i.seen_due as noted, t.due_at = $1::timestamptz as answered from things t, millrace.items i",
    [claimed!.seen],
  );
  expect(same).toEqual({ noted: true, answered: true });
});

test("a claim notes the due time of now, not that of the fetch", async () => {
  await engine.thing();
  const keys = await queueRows(engine);
  await engine.query("update things set due_at = '2030-01-01'");
  expect((await claimRows(engine, keys))[0]!.seen).toMatch(/^2030-01-01/);
  await engine.query("update things set due_at = null, lock_token = $1", [keys[0]!.token]);
  await engine.query("update millrace.items set lock_token = $1", [keys[0]!.token]);
  expect((await claimRows(engine, keys))[0]!.seen).toBeNull();
});

test("every kind of column arrives as it is", async () => {
  const spec = { a: [1, "zwei", null], b: { c: true }, big: 1e21 };
  await engine.thing({
    name: "Ü 'quoted' \\ \n🙂",
    note: null,
    big: "9007199254740993",
    spec,
    size: -7,
    seen_at: "2024-02-29T12:34:56.123Z",
    tags: ["a,b", '"q"', "", "null"],
  });
  const [claimed] = await claimRows(engine, await queueRows(engine));
  expect(claimed!.row).toMatchObject({
    name: "Ü 'quoted' \\ \n🙂",
    note: null,
    big: "9007199254740993",
    spec,
    size: -7,
    to_be_deleted: false,
    seen_at: new Date("2024-02-29T12:34:56.123Z"),
    tags: ["a,b", '"q"', "", "null"],
    lock_token: claimed!.token,
    lock_owner: "things",
  });
  expect(claimed!.row["created_at"]).toBeInstanceOf(Date);
});

test("the database's time, and the token of the last accepted apply, come along", async () => {
  await engine.thing();
  const [first] = await claimRows(engine, await queueRows(engine));
  expect(first!.row["millrace_applied_token"]).toBeNull();
  expect(first!.row["millrace_now"]).toBeInstanceOf(Date);
  expect(Math.abs(Date.now() - (first!.row["millrace_now"] as Date).getTime())).toBeLessThan(60_000);
  await applyRows(engine, [answer(first!, { due: 0 })]);
  const [second] = await claimRows(engine, await queueRows(engine));
  expect(second!.row["millrace_applied_token"]).toBe(first!.token);
});

/** workers × 0.5 */
const LOWER = 2;

async function waiting(count: number, more: { state?: string; alive?: string; pipeline?: string } = {}) {
  await engine.query(
    `insert into millrace.items (item_id, pipeline, state, lock_token, alive_until)
     select gen_random_uuid(), $2, $3, gen_random_uuid(), now() + $4::interval from generate_series(1, $1)`,
    [count, more.pipeline ?? "things", more.state ?? "queued", more.alive ?? "1 min"],
  );
}

const fullBefore = (drain: boolean) =>
  engine.query("update millrace.pipelines set drain = $1 where name = 'things'", [drain]);

test.each([
  ["fewer wait than the lower limit", LOWER - 1, true],
  ["as many wait as the lower limit", LOWER, false],
])("after a full queue, a claim hints when %s", async (_, count, drained) => {
  await engine.thing();
  const keys = await queueRows(engine);
  await waiting(count);
  await waiting(3, { state: "processing" });
  await waiting(3, { alive: "-1 s" });
  await waiting(3, { pipeline: "checks" });
  await fullBefore(true);
  expect((await claimRows(engine, keys))[0]!.row).toMatchObject({ millrace_drained: drained });
});

test("a claim counts itself out once: of two claims only the one below the limit hints", async () => {
  for (let n = 0; n < 3; n++) await engine.thing();
  const keys = await queueRows(engine);
  await fullBefore(true);
  expect((await claimRows(engine, [keys[0]!]))[0]!.row).toMatchObject({ millrace_drained: false });
  expect((await claimRows(engine, [keys[1]!]))[0]!.row).toMatchObject({ millrace_drained: true });
});

test("no hint when the last fetch did not find the queue full", async () => {
  await engine.thing();
  const keys = await queueRows(engine);
  await engine.query("update millrace.pipelines set drain = (name = 'checks')");
  expect((await claimRows(engine, keys))[0]!.row).toMatchObject({ millrace_drained: false });
});
