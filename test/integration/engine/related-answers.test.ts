import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type RelatedPasses, relatedPass } from "../../support/related-passes.ts";
import { FREE, lockOf } from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const pass = (pipeline: string, of: RelatedPasses) => relatedPass(engine, pipeline, of);

/** A pass that locks nothing and answers this. */
const answers = (changes: object) => ({
  decide: async () => [],
  process: ({ apply }: never) => (apply as (c: object) => unknown)(changes),
});

describe("related rows that do not fit into one answer of the database", () => {
  test("of a batch: each pass gets its own", async () => {
    for (let n = 0; n < 4; n += 1) await engine.group(4);
    await engine.query("update members set note = repeat('x', 100000)");
    const ports = await pass("groups", {});
    expect(ports.events.of("item.applied")).toHaveLength(4);
  });

  test("of one pass: it gets them all", async () => {
    const { members } = await engine.group(15);
    await engine.query("update members set note = repeat('x', 100000)");
    let seen: readonly { id: string }[] = [];
    await pass("groups", {
      active: {
        process: ({ related, apply }: never) => {
          seen = (related as { members: { id: string }[] }).members;
          return (apply as (c: object) => unknown)({});
        },
      },
    });
    expect(seen.map((m) => m.id)).toEqual(members);
  });

  test("a single one that is too large fails its pass, not the batch", async () => {
    await engine.group(1);
    await engine.group(1);
    await engine.query("update members set note = 'x'");
    const [large] = await engine.query<{ id: string; group_id: string }>("select id, group_id from members limit 1");
    await engine.query("update members set note = repeat('x', 1100000) where id = $1", [large!.id]);
    const ports = await pass("groups", {});
    expect(ports.events.of("item.failed")).toMatchObject([{ id: large!.group_id }]);
    expect(ports.events.of("item.applied")).toHaveLength(1);
  });
});

describe("answers about other rows", () => {
  test.each([
    [
      "a row that is not locked",
      { related: { members: [{ id: "00000000-0000-4000-8000-000000000001", set: {} }] } },
      "RELATED_CHANGE",
    ],
    ["a lock that there is not", { related: { tasks: [] } }, "LOCK_UNKNOWN"],
    ["a column of the engine", { related: { members: [{ id: "ID", set: { due_at: null } }] } }, "PATCH_COLUMN"],
    ["a wish for a row that it holds", { request: { members: [{ id: "ID" }] } }, "REQUEST_OWN"],
    [
      "a wish in a column of the engine",
      { request: { tasks: [{ id: "00000000-0000-4000-8000-000000000001", set: { lock_token: null } }] } },
      "PATCH_COLUMN",
    ],
  ])("%s fails the pass, and writes nothing", async (_, changes, code) => {
    const { members } = await engine.group(1);
    const given = JSON.parse(JSON.stringify(changes).replaceAll("ID", members[0]!));
    const ports = await pass("groups", {
      active: { process: ({ apply }: never) => (apply as (c: object) => unknown)(given) },
    });
    expect(ports.events.of("item.failed")[0]!.error).toContain(code);
    expect(await lockOf(engine, "members", members[0]!)).toEqual(FREE);
  });

  test("what becomes ready by it is hinted: related rows, requested rows, new rows", async () => {
    const { id, members } = await engine.group(1);
    const task = await engine.insert("tasks", { status: "running", due_at: null });
    await engine.query("update members set due_at = null");
    const ports = await pass("groups", {
      active: {
        process: ({ apply }: never) =>
          (apply as (c: object) => unknown)({
            related: { members: [{ id: members[0], set: { status: "new" } }] },
            request: { tasks: [{ id: task, set: { stop: true } }] },
            insert: { members: [{ group_id: id }] },
          }),
      },
    });
    expect(new Set(ports.hinted.filter((h) => h.at === undefined).map((h) => h.pipeline))).toEqual(
      new Set(["members", "tasks"]),
    );
    expect(await engine.row("tasks", task)).toMatchObject({ stop: true });
  });

  test("two answers of a batch that ask each other are both written", async () => {
    const [a, b] = await Promise.all([
      engine.insert("tasks", { status: "running" }),
      engine.insert("tasks", { status: "running" }),
    ]);
    const ports = await pass("tasks", {
      running: {
        process: ({ row, apply }: never) =>
          (apply as (c: object) => unknown)({
            request: { tasks: [{ id: (row as { id: string }).id === a ? b : a, set: { stop: true } }] },
          }),
      },
    });
    expect(ports.events.of("item.applied")).toHaveLength(2);
    expect(await engine.query("select stop from tasks")).toEqual([{ stop: true }, { stop: true }]);
  });
});

describe("what an answer says of one row in two places", () => {
  test("two wishes are both stored", async () => {
    const id = await engine.insert("tasks", { status: "done" });
    await engine.group(0);
    const tasks = [{ id }, { id: id.toUpperCase(), set: { stop: true } }, { id }];
    const ports = await pass("groups", { active: answers({ request: { tasks } }) });
    expect(ports.events.of("item.applied")).toHaveLength(1);
    expect(await engine.row("tasks", id)).toMatchObject({ stop: true });
  });

  test("two changes of a related row are both written", async () => {
    const { members } = await engine.group(1);
    const id = members[0]!;
    await pass("groups", {
      active: {
        process: ({ apply }: never) =>
          (apply as (c: object) => unknown)({
            related: {
              members: [
                { id, set: { note: "new" } },
                { id: id.toUpperCase(), set: { busy: 2 } },
              ],
            },
          }),
      },
    });
    expect(await engine.row("members", id)).toMatchObject({ note: "new", busy: 2 });
  });

  test("a wish for the row itself is refused, however its id is written", async () => {
    const { id } = await engine.group(0);
    const groups = [{ id: id.toUpperCase(), set: { wanted: 3 } }];
    const ports = await pass("groups", { active: answers({ set: { name: "new" }, request: { groups } }) });
    expect(ports.events.of("item.failed")[0]!.error).toContain("REQUEST_OWN");
  });
});

test("a row that becomes another pipeline's, and is due later: that one is hinted, and arms a wake-up", async () => {
  await engine.insert("tasks", { status: "running" });
  const { process } = answers({ set: { status: "ending" }, due: 5 });
  const ports = await pass("tasks", { running: { process } });
  expect(ports.hinted).toMatchObject([{ pipeline: "endings" }]);
});
