import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createOperator, type Database, type Ports } from "../../../lib/index.ts";
import { noteOrphanSql } from "../../../lib/sql/orphan.ts";
import { ownDataApi } from "../../support/data-api-calls.ts";
import { takeAgain, thingOf } from "../../support/endings.ts";
import { connect, createEngine, type Schema, type TestEngine } from "../../support/engine.ts";
import { type Gate, gate } from "../../support/gate.ts";
import { type Passes, passes } from "../../support/passes.ts";
import { fetchMessages, type TestPorts, testPorts, work, workDue } from "../../support/ports.ts";
import { answer, applyRows } from "../../support/steps.ts";
import { until } from "../../support/until.ts";

let engine: TestEngine;
let own: Awaited<ReturnType<typeof ownDataApi>>;
let undone: unknown[];
let inside: Gate;
beforeAll(async () => {
  engine = await createEngine();
  own = await ownDataApi();
});
afterAll(async () => {
  await own.close();
  await engine[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await engine.clear();
  own.api.faults.clear();
  undone = [];
  inside = gate();
});

/** Over a Data API of the test's own, which can be told to fail. */
function faultyPorts(timeLeft = 60_000, overrides: Partial<Ports> = {}): TestPorts {
  const { database } = engine;
  const there = { ...database, dataApiConfig: { ...database.dataApiConfig, endpoint: own.endpoint } };
  const api = connect<Schema>(there, database.dataApiConfig.secretArn, () => timeLeft);
  return testPorts({ api }, overrides);
}

const CHANGES = { set: { status: "active", note: "mine" } } as const;
/** Passes whose side effects can be undone. */
const undoable = (more: Passes["provision"] = {}) =>
  passes({
    provision: {
      process: async ({ apply }) => {
        await inside.pass();
        return apply(CHANGES);
      },
      onStale: async ({ row, key, attempt }, changes, services) => {
        undone.push({ id: row.id, key: key.length, attempt, changes, services });
      },
      orphan: (changes) => `volume ${String(changes.set?.note)}`,
      ...more,
    },
  });

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

describe("an apply without an answer", () => {
  test("that was written is already there: sent again, hinted again, never undone", async () => {
    const ports = faultyPorts();
    const id = await engine.thing();
    own.api.faults.add({ kind: "lostAnswer", match: "millrace:apply" });
    inside.open();
    await workDue(undoable(), ports);
    expect(ports.events.of("item.already")).toMatchObject([{ id, phase: "apply" }]);
    expect(ports.hinted).toContainEqual({ pipeline: "checks", delaySeconds: 0 });
    expect(undone).toEqual([]);
    expect(await thingOf(engine, id)).toMatchObject(CHANGES.set);
  });

  test("that was not written is written by the repetition", async () => {
    const ports = faultyPorts();
    const id = await engine.thing();
    own.api.faults.add({ kind: "error", code: "InternalServerErrorException", match: "millrace:apply" });
    inside.open();
    await workDue(undoable(), ports);
    expect(ports.events.of("item.applied")).toMatchObject([{ id }]);
    expect(undone).toEqual([]);
  });

  test("that others have long forgotten is unknown: it may have been accepted, so nobody undoes it", async () => {
    const id = await engine.thing();
    const run = async (...[statement, options]: Parameters<Database["run"]>) => {
      const first = await engine.api.run(statement, options);
      if (statement.name !== "apply things") return first;
      for (let n = 0; n < 4; n++) {
        await engine.query("update things set status = 'submitted'");
        await applyRows(engine, [answer(await takeAgain(engine, id), { set: { note: "theirs" } })]);
      }
      return { ...(await engine.api.run(statement, options)), unanswered: true };
    };
    const ports = testPorts(engine, { database: { run } as Database });
    inside.open();
    await workDue(undoable(), ports);
    expect(ports.events.of("item.unknown")).toMatchObject([{ id, phase: "apply", orphan: "volume mine" }]);
    expect(ports.events.of("item.stale")).toEqual([]);
    expect(undone).toEqual([]);
    expect(await thingOf(engine, id)).toMatchObject({ note: "theirs" });
  });

  test("until the time is up is unknown too", async () => {
    const id = await engine.thing();
    const messages = await fetchMessages(undoable(), testPorts(engine));
    const ports = faultyPorts(2_000, { timeLeft: () => 60_000 });
    own.api.faults.add({ kind: "lostAnswer", match: "millrace:apply", count: 100 });
    inside.open();
    await work(undoable(), messages, ports);
    expect(ports.events.of("finish.failed")).toMatchObject([{ step: "apply" }]);
    expect(ports.events.of("item.unknown")).toMatchObject([{ id }]);
    expect(undone).toEqual([]);
  });

  test("and then refused is unknown: nobody fails what may have been accepted", async () => {
    const ports = faultyPorts();
    const id = await engine.thing();
    own.api.faults.add({ kind: "lostAnswer", match: "millrace:apply" });
    own.api.faults.add({ kind: "error", code: "23514", match: "millrace:apply" });
    inside.open();
    await workDue(undoable(), ports);
    expect(ports.statements.filter((s) => s.startsWith("fail"))).toEqual([]);
    expect(ports.events.of("item.unknown")).toMatchObject([{ id }]);
    expect(undone).toEqual([]);
    expect(await thingOf(engine, id)).toMatchObject(CHANGES.set);
  });
});
