import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { answer, applyRows, claimRows, fetchRows, untilBlocked } from "../../support/steps.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

test("a new row is fetched at once, claimed and applied", async () => {
  const id = await engine.thing();
  const fetched = await fetchRows(engine);
  expect(fetched).toMatchObject({ why: "rows", ids: [id] });
  const [claimed] = await claimRows(engine, [{ id, token: fetched.token }]);
  expect(claimed).toMatchObject({ result: "ours", state: "provision", attempts: 1 });
  const [applied] = await applyRows(engine, [answer(claimed!, { set: { status: "active" }, nows: ["seen_at"] })]);
  expect(applied).toMatchObject({ result: "applied", hint: "checks" });
  const [row] = await engine.query("select *, seen_at = last_processed_at as same from things");
  expect(row).toMatchObject({
    status: "active",
    lock_token: null,
    lock_owner: null,
    lock_expires_at: null,
    same: true,
  });
});

test("an apply waits for a thief that has not committed, is stale, and writes nothing", async () => {
  const id = await engine.thing();
  const fetched = await fetchRows(engine);
  const [claimed] = await claimRows(engine, [{ id, token: fetched.token }]);
  const thief = await engine.database.connect();
  await thief.query("begin");
  await thief.query("update things set lock_token = gen_random_uuid() where id = $1", [id]);
  const applying = applyRows(engine, [answer(claimed!, { set: { note: "mine" } })]);
  await untilBlocked(engine);
  await thief.query("commit");
  expect((await applying)[0]).toMatchObject({ result: "stale" });
  expect(await engine.query("select note from things")).toEqual([{ note: null }]);
});
