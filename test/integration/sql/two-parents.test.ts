import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { registry } from "../../../lib/index.ts";
import { sweepSql } from "../../../lib/sql/sweep.ts";
import { writeSql } from "../../../lib/sql/write.ts";
import { endRows } from "../../support/endings.ts";
import { hold, lockOf, lockRows, takeRow } from "../../support/related-steps.ts";
import { createRelatedEngine, groups, type RelatedEngine, relatedRegistry } from "../../support/related-tables.ts";

/* One pipeline locks children by another column in each of its states; the owner does not say by which. */

const twoParents = registry<unknown>([
  groups.pipeline(
    "groups",
    {
      active: groups.state({
        ready: (eb) => eb("status", "=", "active"),
        locks: { members: groups.children("members", "group_id", undefined, { reserve: true }) },
        process: ({ apply }) => apply({}),
      }),
      closing: groups.state({
        ready: (eb) => eb("status", "=", "closing"),
        locks: { members: groups.children("members", "home_id" as never, undefined, { reserve: true }) },
        process: ({ apply }) => apply({}),
      }),
    },
    { workers: 20 },
  ),
  ...(relatedRegistry().pipelines.filter((p) => p.name !== "groups") as never[]),
]);

let engine: RelatedEngine;
beforeAll(async () => {
  const created = await createRelatedEngine();
  await created.query("alter table members add column home_id uuid");
  engine = { ...created, registry: twoParents, [Symbol.asyncDispose]: () => created[Symbol.asyncDispose]() };
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

test("a live lock by the one column is not dead for want of a parent in the other", async () => {
  const { id, members } = await engine.group(1);
  const claimed = await takeRow(engine, "groups", id);
  expect(await lockRows(engine, "groups", [claimed])).toMatchObject([{ result: "locked" }]);
  await engine.run(sweepSql(twoParents, true));
  const write = { id: members[0]!, token: crypto.randomUUID(), set: {}, nows: [] };
  expect(await engine.run(writeSql(twoParents, "members", write))).toMatchObject([{ millrace_result: "held" }]);
  expect(await lockOf(engine, "members", members[0]!)).toMatchObject({ owner: "groups", token: claimed.token });
});

test("control: it is dead once its parent's token is gone", async () => {
  const { id, members } = await engine.group(1);
  const claimed = await takeRow(engine, "groups", id);
  await lockRows(engine, "groups", [claimed]);
  await engine.query("update groups set lock_token = null, lock_owner = null, lock_expires_at = null");
  await engine.run(sweepSql(twoParents, true));
  expect(await lockOf(engine, "members", members[0]!)).toMatchObject({ owner: null, token: null });
});

test("a child that is reserved by the one column stays so while its parent waits", async () => {
  const { id, members } = await engine.group(2);
  await hold(engine, "members", members[1]!);
  const claimed = await takeRow(engine, "groups", id);
  expect(await lockRows(engine, "groups", [claimed])).toMatchObject([{ result: "contention" }]);
  await endRows(engine, "reset", [claimed], { pipeline: "groups", keep: true });
  await engine.run(sweepSql(twoParents, true));
  expect(await lockOf(engine, "members", members[0]!)).toMatchObject({ owner: "groups", token: null });
  await engine.query("update groups set lock_owner = null");
  await engine.run(sweepSql(twoParents, true));
  expect(await lockOf(engine, "members", members[0]!)).toMatchObject({ owner: null });
});
