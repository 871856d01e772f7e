import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { fetchMessages, testPorts, work } from "../../support/ports.ts";
import { type RelatedPasses, relatedPasses } from "../../support/related-passes.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

async function pass(pipeline: string, of: RelatedPasses) {
  const ports = testPorts(engine);
  const registry = relatedPasses(of);
  await work(registry, await fetchMessages(registry, ports, pipeline), ports);
  return ports;
}

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
