import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { endRows } from "../../support/endings.ts";
import { FREE, hold, lockOf, lockRows, takeRow } from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";
import { writerOn } from "../../support/writers.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

/** A child that is kept for its parent, which waits for the other one. */
async function reserved() {
  const { id, members } = await engine.group(2, { status: "closing" });
  await hold(engine, "members", members[1]!);
  const claimed = await takeRow(engine, "groups", id);
  expect(await lockRows(engine, "groups", [claimed])).toMatchObject([{ result: "contention" }]);
  await endRows(engine, "reset", [claimed], { pipeline: "groups", keep: true });
  expect(await lockOf(engine, "members", members[0]!)).toMatchObject({ owner: "groups", token: null });
  return { id, child: members[0]! };
}

test("a child is given back reserved while its parent waits", async () => {
  const { child } = await reserved();
  await writerOn(engine).withLock("members", child, {}, async () => {
    expect(await lockOf(engine, "members", child)).toMatchObject({ owner: null, live: true });
  });
  expect(await lockOf(engine, "members", child)).toMatchObject({ owner: "groups", token: null });
});

test("free when its parent is through by then: nobody would let it go", async () => {
  const { id, child } = await reserved();
  await writerOn(engine).withLock("members", child, {}, async () => {
    const claimed = await takeRow(engine, "groups", id);
    await endRows(engine, "release", [claimed], { pipeline: "groups" });
  });
  expect(await lockOf(engine, "members", child)).toEqual(FREE);
});
