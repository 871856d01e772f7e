import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createOperator, type Database } from "../../../lib/index.ts";
import { noteOrphanSql } from "../../../lib/sql/orphan.ts";
import { thingOf } from "../../support/endings.ts";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { type Gate, gate } from "../../support/gate.ts";
import { type Passes, passes } from "../../support/passes.ts";
import { fetchMessages, testPorts, work, workDue } from "../../support/ports.ts";
import { CHANGES, undoablePasses } from "../../support/undoable.ts";
import { until } from "../../support/until.ts";

let engine: TestEngine;
let undone: unknown[];
let inside: Gate;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(async () => {
  await engine.clear();
  undone = [];
  inside = gate();
});

const undoable = (more?: Passes["provision"]) => undoablePasses({ undone, inside }, more);

const operator = () =>
  createOperator({ database: engine.api, registry: engine.registry, hints: testPorts(engine).hints });

const steal = () =>
  engine.query("update things set lock_token = gen_random_uuid(), lock_expires_at = now() + interval '30 s'");

describe("a lock that was lost", () => {
  test("writes nothing, is undone once, and the orphan is named", async () => {
    const ports = testPorts(engine);
    const id = await engine.thing();
    const working = workDue(undoable(), ports, { cloud: 1 });
    await inside.reached;
    await steal();
    inside.open();
    expect(await working).toEqual([]);
    expect(undone).toEqual([{ id, key: 32, attempt: 1, changes: CHANGES, services: { cloud: 1 } }]);
    const about = { pipeline: "things", id, token: expect.any(String) };
    expect(ports.events.of("item.stale")).toEqual([{ ...about, phase: "apply", orphan: "volume mine" }]);
    expect(ports.events.of("item.compensated")).toEqual([about]);
    expect(ports.events.of("item.applied")).toEqual([]);
    expect(await thingOf(engine, id)).toMatchObject({ status: "submitted", note: null });
    expect(await operator().orphans()).toEqual([]);
  });

  test("that nothing undoes is listed for the operator, once, until it is settled", async () => {
    const ports = testPorts(engine);
    const id = await engine.thing();
    const { onStale: _, ...provision } = undoable().get("things").states[0]!.spec;
    const working = workDue(passes({ provision }), ports);
    await inside.reached;
    await steal();
    inside.open();
    await working;
    const [orphan, ...others] = await operator().orphans();
    expect(others).toEqual([]);
    expect(orphan).toEqual({
      token: ports.events.of("item.stale")[0]!.token,
      pipeline: "things",
      item_id: id,
      outcome: "stale",
      what: "volume mine",
      found_at: expect.any(Date),
    });
    await engine.run(noteOrphanSql(orphan!));
    expect(await operator().orphans()).toEqual([orphan]);
    expect(await operator().settleOrphan(orphan!.token)).toBe(true);
    expect(await operator().settleOrphan(orphan!.token)).toBe(false);
    expect(await operator().orphans()).toEqual([]);
    await expect(operator().settleOrphan("x")).rejects.toMatchObject({ code: "ID_MALFORMED" });
  });

  test("whose undoing fails is listed, too", async () => {
    const ports = testPorts(engine);
    await engine.thing();
    const working = workDue(undoable({ onStale: () => Promise.reject(new Error("down")) }), ports);
    await inside.reached;
    await steal();
    inside.open();
    await working;
    expect(await operator().orphans()).toMatchObject([{ outcome: "stale", what: "volume mine" }]);
  });

  test("control: with the lock it is written, and nothing is undone", async () => {
    const ports = testPorts(engine);
    const id = await engine.thing();
    inside.open();
    await workDue(undoable(), ports);
    expect(undone).toEqual([]);
    expect(ports.events.of("item.applied")).toHaveLength(1);
    expect(await thingOf(engine, id)).toMatchObject(CHANGES.set);
  });

  test.each([
    ["onStale", { onStale: async () => Promise.reject(new Error("provider down")) }, "Error"],
    [
      "orphan",
      {
        orphan: () => {
          throw new TypeError("no name");
        },
      },
      "TypeError",
    ],
  ])(
    "%s that throws is reported without its text, which may hold anything, and stops nobody",
    async (step, more, error) => {
      const ports = testPorts(engine);
      await engine.query("insert into things (name) select 'n' || g from generate_series(1, 2) g");
      const working = workDue(undoable(more), ports);
      await inside.reached;
      await engine.query("update things set lock_token = gen_random_uuid() where name = 'n1'");
      inside.open();
      expect(await working).toEqual([]);
      expect(ports.events.of("finish.failed")).toEqual([{ pipeline: "things", step, error }]);
      expect(ports.events.of("item.stale")).toHaveLength(1);
      expect(ports.events.of("item.applied")).toHaveLength(1);
    },
  );

  test("inserts nothing and hints nobody", async () => {
    const ports = testPorts(engine);
    await engine.thing();
    const insert = { things: [{ name: "new" }] };
    const registry = undoable({ process: ({ apply }) => inside.pass().then(() => apply({ ...CHANGES, insert })) });
    const working = workDue(registry, ports);
    await inside.reached;
    await steal();
    inside.open();
    await working;
    expect(ports.hinted).toEqual([]);
    expect(await engine.query("select name from things")).toEqual([{ name: "t" }]);
  });

  test("while it is undone, the hints of its batch-mates are on their way", async () => {
    const ports = testPorts(engine);
    await engine.query("insert into things (name) select 'n' || g from generate_series(1, 2) g");
    const undoing = gate();
    const registry = undoable({ onStale: () => undoing.pass() });
    const messages = await fetchMessages(registry, ports);
    const working = work(registry, messages, ports);
    await inside.reached;
    await engine.query("update things set lock_token = gen_random_uuid() where name = 'n1'");
    inside.open();
    await undoing.reached;
    await until(() => ports.hinted.some((h) => h.pipeline === "checks"), { what: "the hint" });
    undoing.open();
    await working;
  });

  test("a failure, a retry and a release of it change nothing and undo nothing", async () => {
    const ports = testPorts(engine);
    await engine.query(
      "insert into things (name, status) values ('fail', 'submitted'), ('reset', 'submitted'), ('release', 'submitted')",
    );
    const registry = undoable({
      process: async ({ row, retry }) => {
        await inside.pass();
        if (row.name === "fail") throw new Error("boom");
        return retry("later");
      },
    });
    const messages = await fetchMessages(registry, ports);
    await engine.past("update things set status = 'failed' where name = 'release'");
    const run = async (...[statement, options]: Parameters<Database["run"]>) => {
      if (statement.name === "release things")
        await engine.query("update things set lock_token = gen_random_uuid() where name = 'release'");
      return engine.api.run(statement, options);
    };
    const stealing = testPorts(engine, { database: { run } as Database });
    const working = work(registry, messages, stealing);
    await inside.reached;
    await engine.query("update things set lock_token = gen_random_uuid() where name <> 'release'");
    inside.open();
    await working;
    expect(
      stealing.events
        .of("item.stale")
        .map((e) => e.phase)
        .sort(),
    ).toEqual(["fail", "release", "reset"]);
    expect(undone).toEqual([]);
  });
});
