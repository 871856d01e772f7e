import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { gate } from "../../support/gate.ts";
import { fetchMessages, testPorts, work } from "../../support/ports.ts";
import { type RelatedPasses, relatedPass, relatedPasses } from "../../support/related-passes.ts";
import { hold } from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const pass = (pipeline: string, of: RelatedPasses, ports = testPorts(engine)) =>
  relatedPass(engine, pipeline, of, ports);

describe("what process sees", () => {
  test("the related rows with the types of their columns, by id; and so does load", async () => {
    const { id, members } = await engine.group(2);
    const seen: unknown[] = [];
    const look = async (_: unknown, { related }: never) => void seen.push(related);
    await pass("groups", {
      active: {
        load: look,
        process: ({ related, apply }: never) => {
          seen.push(related);
          return (apply as (c: object) => unknown)({});
        },
      },
    });
    const [loaded, processed] = seen as { members: Record<string, unknown>[] }[];
    expect(loaded).toEqual(processed);
    expect(processed!.members.map((m) => m["id"])).toEqual(members);
    expect(processed!.members[0]).toMatchObject({ group_id: id, busy: 0, created_at: expect.any(Date), note: null });
    expect(processed!.members[0]).not.toHaveProperty("millrace_item");
  });

  test("a shared row or null, a list, a pick", async () => {
    const { id, members } = await engine.group(2);
    const seen: Record<string, unknown> = {};
    const note =
      (name: string) =>
      ({ related, apply }: never) => {
        seen[name] = related;
        return (apply as (c: object) => unknown)({});
      };
    const of = {
      waiting: { process: note("waiting") },
      running: { process: note("running") },
      ending: { process: note("ending") },
    };
    await engine.insert("tasks", { status: "ending" });
    await pass("endings", of);
    expect(seen["ending"]).toEqual({ member: null });
    await engine.insert("tasks", { status: "running", member_ids: members });
    await pass("tasks", of);
    expect(seen["running"]).toMatchObject({ members: members.map((m) => ({ id: m })) });
    await engine.insert("tasks", { status: "waiting", group_id: id });
    await pass("tasks", of);
    expect(seen["waiting"]).toMatchObject({ member: { id: members[0] } });
  });

  test("the row is read again under the locks: what was requested since the claim is in it", async () => {
    const { id } = await engine.group(1);
    const row = await new Promise((resolve) => {
      void pass("groups", {
        active: {
          decide: async () => {
            await engine.query("update groups set wanted = 5 where id = $1", [id]);
            return ["members"];
          },
          process: ({ row: read, apply }: never) => {
            resolve(read);
            return (apply as (c: object) => unknown)({});
          },
        },
      });
    });
    expect(row).toMatchObject({ wanted: 5 });
  });
});

describe("decide", () => {
  test("none: a foreign lock on a child does not hold the pass up, and none is locked", async () => {
    const { members } = await engine.group(2);
    await hold(engine, "members", members[0]!);
    const ports = await pass("groups", { active: { decide: async () => [] } });
    expect(ports.events.of("item.applied")).toHaveLength(1);
    expect(ports.statements.filter((s) => s.startsWith("lock-related"))).toEqual([]);
  });

  test("a name that is no lock fails the pass, and says which there are", async () => {
    await engine.group(1);
    const ports = await pass("groups", { active: { decide: async () => ["volumes"] } });
    expect(ports.events.of("item.failed")[0]!.error).toContain(
      "LOCK_UNKNOWN: active has no lock called volumes; it has: members",
    );
  });

  test("one that throws is a failed attempt", async () => {
    await engine.group(1);
    const ports = await pass("groups", {
      active: {
        decide: async () => {
          throw new Error("no idea");
        },
      },
    });
    expect(ports.events.of("item.failed")[0]!.error).toBe("no idea");
  });
});

describe("side by side", () => {
  test("two picks of a batch get a row each", async () => {
    const { id, members } = await engine.group(2);
    for (let n = 0; n < 2; n += 1) await engine.insert("tasks", { status: "waiting", group_id: id });
    const ports = await pass("tasks", {});
    expect(ports.events.of("item.applied")).toHaveLength(2);
    const rows = await engine.query<{ member_id: string }>("select member_id from tasks");
    expect(rows.map((r) => r.member_id).sort()).toEqual(members);
  });

  test("an item without locks does not wait for a batch-mate that decides", async () => {
    const stuck = gate();
    await engine.group(1, { name: "slow" });
    await engine.group(0, { name: "quick" });
    const applied = Promise.withResolvers<void>();
    const running = pass("groups", {
      active: {
        decide: async (_: unknown, { row }: never) => {
          if ((row as { name: string }).name === "slow") await stuck.pass();
          return [];
        },
        process: ({ row, apply }: never) => {
          if ((row as { name: string }).name === "quick") applied.resolve();
          return (apply as (c: object) => unknown)({});
        },
      },
    });
    await stuck.reached;
    await applied.promise;
    stuck.open();
    await running;
  });

  test("two hundred times two tasks end on one member at the same time: its count is right every time", async () => {
    const registry = relatedPasses({});
    const { id, members } = await engine.group(1);
    for (let round = 0; round < 200; round += 1) {
      await engine.query(
        "update members set busy = 2; delete from tasks; delete from millrace.items where pipeline = 'endings'",
      );
      for (let n = 0; n < 2; n += 1)
        await engine.insert("tasks", { status: "ending", group_id: id, member_id: members[0] });
      const ports = testPorts(engine);
      const all = await fetchMessages(registry, ports, "endings");
      // two workers, a message each
      await Promise.all(all.map((message) => work(registry, [message], ports)));
      for (let tries = 0; ports.events.of("item.applied").length < 2; tries += 1) {
        expect(tries).toBeLessThan(20);
        await engine.query("update tasks set due_at = now() where lock_token is null");
        await work(registry, await fetchMessages(registry, ports, "endings"), ports);
      }
      expect(await engine.row("members", members[0]!)).toMatchObject({ busy: 0, lock_token: null, lock_owner: null });
    }
  }, 120_000);
});
