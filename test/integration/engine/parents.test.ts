import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { Registry } from "../../../lib/index.ts";
import { gate } from "../../support/gate.ts";
import { fetchMessages, type TestPorts, testPorts, work } from "../../support/ports.ts";
import { type RelatedPasses, relatedPasses } from "../../support/related-passes.ts";
import { FREE, hold, lockOf } from "../../support/related-steps.ts";
import { createRelatedEngine, members as onMembers, type RelatedEngine } from "../../support/related-tables.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const PIPELINES = ["members", "groups", "endings"] as const;

/** Everything becomes due, and each pipeline has one pass over what it can fetch. */
async function round(registry: Registry<unknown>, ports: TestPorts, order: readonly string[] = PIPELINES) {
  for (const table of ["groups", "members", "tasks"])
    await engine.query(`update ${table} set due_at = now() where lock_token is null and due_at is not null`);
  for (const pipeline of order) await work(registry, await fetchMessages(registry, ports, pipeline), ports);
}

const closingDeletes: RelatedPasses["closing"] = {
  process: ({ related, apply }: never) =>
    (apply as (c: object) => unknown)({
      delete: true,
      related: { members: (related as { members: { id: string }[] }).members.map(({ id }) => ({ id, delete: true })) },
    }),
};

test("a child that fails for ever does not block its parent", async () => {
  const { id, members } = await engine.group(3, { status: "closing" });
  const poison = members[1];
  const registry = relatedPasses(
    {
      closing: closingDeletes,
      tend: {
        process: ({ row, apply }: never) => {
          if ((row as { id: string }).id === poison) throw new Error("poison");
          return (apply as (c: object) => unknown)({});
        },
      },
    },
    { maxAttempts: 2 },
  );
  // it has failed, and backs off; then it is dead
  for (let n = 0; n < 3; n += 1) await round(registry, testPorts(engine), ["members"]);
  await round(registry, testPorts(engine), ["groups"]);
  expect(await engine.query("select 1 from groups where id = $1", [id])).toEqual([]);
  expect(await engine.query("select 1 from members")).toEqual([]);
});

test("a child whose worker dies over it for ever does not block its parent", async () => {
  const { id, members } = await engine.group(2, { status: "closing" });
  await hold(engine, "members", members[0]!, { owner: "members", seconds: -1 });
  await round(relatedPasses({ closing: closingDeletes }), testPorts(engine), ["groups"]);
  expect(await engine.query("select 1 from groups where id = $1", [id])).toEqual([]);
});

test("a child that is given back for ever neither blocks nor starves its parent", async () => {
  const { members } = await engine.group(2);
  // the children want a task that an API holds: contention, every time
  const task = await engine.insert("tasks", { status: "done", member_id: members[0] });
  await hold(engine, "tasks", task);
  const locks = { tasks: onMembers.children("tasks", "member_id") };
  const registry = relatedPasses({ tend: { locks } });
  const ports = testPorts(engine);
  await round(registry, ports, ["members"]);
  expect(await lockOf(engine, "members", members[0]!)).toEqual({ ...FREE, owner: "members" });
  for (let n = 0; n < 3; n += 1) await round(registry, ports);
  expect(ports.events.of("item.applied").filter((e) => e.pipeline === "groups")).toHaveLength(3);
});

test("a stream of takers does not starve a parent that waits for all", async () => {
  const { id, members } = await engine.group(1);
  const first = gate();
  const task = (n: number) =>
    engine.insert("tasks", { id: `00000000-0000-4000-8000-00000000000${n}`, status: "ending", member_id: members[0] });
  const registry = relatedPasses({
    ending: {
      process: async ({ row, apply }: never) => {
        if ((row as { id: string }).id.endsWith("1")) await first.pass();
        return (apply as (c: object) => unknown)({ set: { status: "done" } });
      },
    },
  });
  const ports = testPorts(engine);
  await task(1);
  const holding = work(registry, await fetchMessages(registry, ports, "endings"), ports);
  await first.reached;
  await round(registry, ports, ["groups"]);
  expect(await lockOf(engine, "groups", id)).toEqual({ ...FREE, owner: "groups" });
  await task(2);
  first.open();
  await holding;
  // the member is free now, and the second task comes first: it makes way
  await round(registry, ports, ["endings"]);
  expect(await lockOf(engine, "members", members[0]!)).toEqual(FREE);
  await round(registry, ports, ["groups"]);
  expect(ports.events.of("item.applied").filter((e) => e.pipeline === "groups")).toHaveLength(1);
  await round(registry, ports, ["endings"]);
  expect(await engine.query("select 1 from tasks where status <> 'done'")).toEqual([]);
});

test("a parent and its child that both died over the child come through", async () => {
  const { id, members } = await engine.group(1);
  await hold(engine, "groups", id, { owner: "groups", seconds: -1 });
  await hold(engine, "members", members[0]!, { owner: "members", seconds: -1 });
  const ports = testPorts(engine);
  for (let n = 0; n < 2; n += 1) await round(relatedPasses({}), ports);
  expect(
    ports.events
      .of("item.applied")
      .map((e) => e.pipeline)
      .sort(),
  ).toContain("groups");
  expect(await lockOf(engine, "groups", id)).toEqual(FREE);
  expect(await lockOf(engine, "members", members[0]!)).toEqual(FREE);
});

test("what waited for a parent is hinted when the parent is done with", async () => {
  await engine.group(1);
  const registry = relatedPasses({});
  const ports = testPorts(engine);
  await round(registry, ports, ["groups"]);
  expect(ports.hinted.map((h) => h.pipeline)).toContain("members");
});
