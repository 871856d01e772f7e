import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { Database } from "../../../lib/index.ts";
import { ownDataApi } from "../../support/data-api-calls.ts";
import { takeAgain, thingOf } from "../../support/endings.ts";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { type Gate, gate } from "../../support/gate.ts";
import { fetchMessages, testPorts, work, workDue } from "../../support/ports.ts";
import { answer, applyRows } from "../../support/steps.ts";
import { CHANGES, faultyPorts, undoablePasses } from "../../support/undoable.ts";

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

const undoable = () => undoablePasses({ undone, inside });

test("an apply without an answer that was written is already there: sent again, hinted again, never undone", async () => {
  const ports = faultyPorts(engine, own);
  const id = await engine.thing();
  own.api.faults.add({ kind: "lostAnswer", match: "millrace:apply" });
  inside.open();
  await workDue(undoable(), ports);
  expect(ports.events.of("item.already")).toMatchObject([{ id, phase: "apply" }]);
  expect(ports.hinted).toContainEqual({ pipeline: "checks", delaySeconds: 0 });
  expect(undone).toEqual([]);
  expect(await thingOf(engine, id)).toMatchObject(CHANGES.set);
});

test("an apply without an answer that was not written is written by the repetition", async () => {
  const ports = faultyPorts(engine, own);
  const id = await engine.thing();
  own.api.faults.add({ kind: "error", code: "InternalServerErrorException", match: "millrace:apply" });
  inside.open();
  await workDue(undoable(), ports);
  expect(ports.events.of("item.applied")).toMatchObject([{ id }]);
  expect(undone).toEqual([]);
});

test("an apply without an answer that others have long forgotten is unknown: it may have been accepted, so nobody undoes it", async () => {
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

test("an apply without an answer until the time is up is unknown too", async () => {
  const id = await engine.thing();
  const messages = await fetchMessages(undoable(), testPorts(engine));
  const ports = faultyPorts(engine, own, 2_000, { timeLeft: () => 60_000 });
  own.api.faults.add({ kind: "lostAnswer", match: "millrace:apply", count: 100 });
  inside.open();
  await work(undoable(), messages, ports);
  expect(ports.events.of("finish.failed")).toMatchObject([{ step: "apply" }]);
  expect(ports.events.of("item.unknown")).toMatchObject([{ id }]);
  expect(undone).toEqual([]);
});

test("an apply without an answer and then refused is unknown: nobody fails what may have been accepted", async () => {
  const ports = faultyPorts(engine, own);
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
