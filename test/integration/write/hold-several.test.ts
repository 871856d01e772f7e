import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { DataApiDatabase } from "../../../lib/index.ts";
import { FREE, lockOf, takeRow } from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine, type RelatedSchema } from "../../support/related-tables.ts";
import { twice, writerOn } from "../../support/writers.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const logs = () => engine.query("select message from logs order by id");
const repeating = () => writerOn(engine, undefined, twice(engine.api as unknown as DataApiDatabase<RelatedSchema>));

test("a write to several rows is one: they get new tokens, the new rows come once, and others can follow", async () => {
  const [a, b, c] = (await engine.group(3)).members as [string, string, string];
  await engine.query("update members set due_at = null");
  await repeating().withLock("members", [a, b, c], {}, async (rows, held) => {
    const written = await held.updateAll([c, a], { busy: 1 }, { insert: { logs: [{ message: "x" }] } });
    expect(written).toMatchObject([
      { id: c, busy: 1, due_at: expect.any(Date) },
      { id: a, busy: 1, due_at: expect.any(Date) },
    ]);
    expect(await engine.row("members", b)).toMatchObject({ busy: 0, due_at: null, lock_token: rows[1]!.lock_token });
    expect(written[0]!.lock_token).not.toBe(rows[0]!.lock_token);
    expect(await held.update(a, { note: "y" })).toMatchObject({ busy: 1, note: "y" });
    expect(await held.updateAll([], { busy: 2 })).toEqual([]);
  });
  for (const id of [a, b, c]) expect(await lockOf(engine, "members", id)).toEqual(FREE);
  expect(await logs()).toEqual([{ message: "x" }]);
});

test.each(["taken by somebody else", "deleted"])(
  "a write with one that was %s writes none, and keeps the others",
  async (how) => {
    const [a, b, c] = (await engine.group(3)).members as [string, string, string];
    await writerOn(engine).withLock("members", [a, b, c], {}, async (_, held) => {
      if (how === "deleted") await engine.past("delete from members where id = $1", [b]);
      else {
        await engine.query("update members set lock_expires_at = now() - interval '1 s' where id = $1", [b]);
        await takeRow(engine, "members", b);
      }
      const late = held.updateAll([a, b, c], { note: "late" }, { insert: { logs: [{ message: "late" }] } });
      await expect(late).rejects.toMatchObject({ code: "LOCK_LOST", details: { id: b } });
      expect(await engine.query("select id from members where note is not null")).toEqual([]);
      expect(await logs()).toEqual([]);
      expect(await held.updateAll([c, a], { note: "z" })).toMatchObject([{ id: c }, { id: a }]);
    });
    for (const id of [a, c]) expect(await lockOf(engine, "members", id)).toEqual(FREE);
  },
);

test("a write to several rows that the database refuses leaves all of them held", async () => {
  const [a, b] = (await engine.group(2)).members as [string, string];
  await writerOn(engine).withLock("members", [a, b], {}, async (_, held) => {
    await expect(held.updateAll([a, b], { busy: null as never })).rejects.toMatchObject({ code: "STATEMENT_FAILED" });
    expect(await held.updateAll([a, b], { busy: 1 })).toHaveLength(2);
  });
  for (const id of [a, b]) expect(await lockOf(engine, "members", id)).toEqual(FREE);
});
