import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import type { Ports } from "../../../lib/index.ts";
import { testPorts } from "../../support/ports.ts";
import { type RelatedPasses, relatedPass } from "../../support/related-passes.ts";
import { FREE, hold, lockOf } from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const pass = (pipeline: string, of: RelatedPasses, ports = testPorts(engine)) =>
  relatedPass(engine, pipeline, of, ports);

const messages = async () =>
  (await engine.query<{ message: string }>("select message from logs order by id")).map((r) => r.message);

test("contention gives the row back with its owner kept, uncounted; the next pass goes through", async () => {
  const { id, members } = await engine.group(2);
  await hold(engine, "members", members[0]!);
  const ports = await pass("groups", {});
  expect(ports.events.of("item.contention")).toMatchObject([
    { pipeline: "groups", id, phase: "lock", missing: `members ${members[0]}` },
  ]);
  expect(ports.events.of("item.retried")).toMatchObject([{ attempt: 1 }]);
  expect(await lockOf(engine, "groups", id)).toEqual({ ...FREE, owner: "groups" });
  await engine.query("update members set lock_token = null, lock_expires_at = null");
  await engine.query("update groups set due_at = now() where lock_token is null");
  const again = await pass("groups", {});
  expect(again.events.of("item.applied")).toMatchObject([{ attempt: 1 }]);
  expect(await lockOf(engine, "groups", id)).toEqual(FREE);
});

test("a related row that is taken before it is read: the pass does not run", async () => {
  const { id, members } = await engine.group(2);
  const { api } = engine;
  const database: Ports["database"] = {
    run: async (statement, options) => {
      if (statement.name === "related members") await hold(engine, "members", members[0]!);
      return api.run(statement, options);
    },
  };
  const process = vi.fn();
  const ports = await pass("groups", { active: { process } }, testPorts(engine, { database }));
  expect(process).not.toHaveBeenCalled();
  expect(ports.events.of("item.contention")).toMatchObject([{ id, phase: "lock", missing: "members" }]);
  expect(await lockOf(engine, "groups", id)).toEqual({ ...FREE, owner: "groups" });
  expect(await lockOf(engine, "members", members[1]!)).toMatchObject({ token: null });
});

test("a related row lost during the pass: nothing is written, side effects are undone, the orphan is named", async () => {
  const { members } = await engine.group(1);
  const undone: unknown[] = [];
  const ports = await pass("groups", {
    active: {
      process: async ({ apply }: never) => {
        await hold(engine, "members", members[0]!);
        return (apply as (c: object) => unknown)({ set: { name: "lost" }, insert: { logs: [{ message: "lost" }] } });
      },
      onStale: async (_: unknown, changes: unknown) => void undone.push(changes),
      orphan: () => "a disk",
    },
  });
  expect(ports.events.of("item.contention")).toMatchObject([{ phase: "apply" }]);
  expect(ports.events.of("item.stale")).toMatchObject([{ orphan: "a disk" }]);
  expect(undone).toHaveLength(1);
  expect(await messages()).toEqual([]);
});

test("a row that names one that is gone fails with its id, and backs off", async () => {
  const nobody = crypto.randomUUID();
  await engine.insert("tasks", { status: "ending", member_id: nobody });
  const ports = await pass("endings", {});
  expect(ports.events.of("item.failed")[0]!.error).toContain(`RELATED_GONE: members has no row ${nobody}`);
});
