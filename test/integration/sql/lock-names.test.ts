import { afterAll, beforeAll, expect, test } from "vitest";
import { lockRows, takeRow } from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());

test("a table may call its columns as the statements call theirs", async () => {
  for (const column of ["dead", "yields", "ours", "gone", "n", "seen_token", "item", "token", "order_0", "result"])
    await engine.query(`alter table members add column "${column}" text`);
  const { id, members } = await engine.group(2);
  const task = await engine.insert("tasks", { group_id: id });
  const picked = await takeRow(engine, "tasks", task);
  expect(await lockRows(engine, "tasks", [picked])).toMatchObject([
    { result: "locked", related: { member: [members[0]] } },
  ]);
  await engine.query("update tasks set lock_token = null, lock_owner = null, lock_expires_at = null");
  const group = await takeRow(engine, "groups", id);
  expect(await lockRows(engine, "groups", [group])).toMatchObject([{ result: "locked", related: { members } }]);
});
