import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { endRows } from "../../support/endings.ts";
import { openTransaction } from "../../support/overlap.ts";
import { FREE, lockOf, takeRow } from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";
import { untilBlocked } from "../../support/steps.ts";
import { writerOn } from "../../support/writers.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

/* The row carries a token in the writer's snapshot, and none any more when the writer has it. */

test("a pass that ends while an update waits for the row: it is written", async () => {
  const id = await engine.insert("tasks", { status: "running" });
  const claimed = await takeRow(engine, "tasks", id);
  await using ending = await openTransaction(engine);
  await endRows(engine, "release", [claimed], { pipeline: "tasks", run: ending.run });
  const writing = writerOn(engine).update("tasks", id, { status: "done" });
  await untilBlocked(engine);
  await ending.commit();
  expect(await writing).toMatchObject({ status: "done" });
  expect(await engine.row("tasks", id)).toMatchObject({ status: "done" });
});

test("a pass that ends while somebody wants to hold the row and others: all are held at once", async () => {
  const ids = [
    await engine.insert("tasks", { status: "running" }),
    await engine.insert("tasks", { status: "done" }),
  ].sort();
  const mine = (await engine.query<{ id: string }>("select id from tasks where status = 'running'"))[0]!.id;
  const claimed = await takeRow(engine, "tasks", mine);
  await using ending = await openTransaction(engine);
  await endRows(engine, "release", [claimed], { pipeline: "tasks", run: ending.run });
  const holding = writerOn(engine)
    .withLock("tasks", ids, { waitSeconds: 0 }, async (rows) => rows.length)
    .catch((error: unknown) => error);
  await untilBlocked(engine);
  await ending.commit();
  const outcome = await holding;
  const locks = await Promise.all(ids.map((id) => lockOf(engine, "tasks", id)));
  expect({ outcome, locks }).toEqual({ outcome: 2, locks: [FREE, FREE] });
});
