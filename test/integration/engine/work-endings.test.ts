import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { drivenClock } from "../../support/driven-clock.ts";
import { itemOf, thingOf } from "../../support/endings.ts";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { gate } from "../../support/gate.ts";
import { passes } from "../../support/passes.ts";
import { type TestPorts, testPorts, workDue } from "../../support/ports.ts";
import { until } from "../../support/until.ts";

let engine: TestEngine;
let ports: TestPorts;
beforeAll(async () => {
  engine = await createEngine();
  await engine.query("alter table things add constraint positive check (size > 0)");
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(async () => {
  await engine.clear();
  ports = testPorts(engine);
});

const makeDue = (id: string) => engine.query("update things set due_at = now() - interval '1 s' where id = $1", [id]);
const activeOnes = () => engine.query("select 1 from things where status = 'active'");

describe("a pass that throws", () => {
  test("is a failed attempt: what it said is kept, the row is free and backs off", async () => {
    const id = await engine.thing();
    const registry = passes({
      provision: {
        process: () => {
          throw new Error("quota \0 exceeded");
        },
      },
    });
    expect(await workDue(registry, ports)).toEqual([]);
    expect(await itemOf(engine, id)).toMatchObject({ state: "failed", last_error: "quota � exceeded", attempts: 1 });
    const [failed] = ports.events.of("item.failed");
    expect(failed).toMatchObject({ id, attempt: 1, error: "quota � exceeded" });
    expect(failed!.retryInSeconds).toBeGreaterThanOrEqual(0.8);
    expect(failed!.retryInSeconds).toBeLessThanOrEqual(1.2);
    expect(await thingOf(engine, id)).toMatchObject({ lock_token: null, lock_owner: null });
    // the next fetcher is woken for it
    expect(ports.hinted).toContainEqual(expect.objectContaining({ pipeline: "things", at: expect.any(String) }));
  });

  test("is dead after the last attempt, and no longer due", async () => {
    const id = await engine.thing();
    const attempts: number[] = [];
    const registry = passes(
      {
        provision: {
          process: async ({ attempt }) => {
            attempts.push(attempt);
            throw new Error("never");
          },
        },
      },
      { maxAttempts: 2 },
    );
    await workDue(registry, ports);
    await makeDue(id);
    await workDue(registry, ports);
    expect(attempts).toEqual([1, 2]);
    expect(ports.events.of("item.dead")).toMatchObject([{ id, attempt: 2, error: "never" }]);
    expect(await thingOf(engine, id)).toMatchObject({ due_at: null });
  });
});

describe("an answer that is none", () => {
  const loop: Record<string, unknown> = {};
  loop["loop"] = loop;
  test.each<[string, unknown, string]>([
    ["nothing", undefined, "undefined"],
    ["null", null, "null"],
    ["text", "done", "'done'"],
    ["a bigint", 1n, "1n"],
    ["something that contains itself", loop, "<ref *1>"],
    ["another kind", { kind: "done" }, "{ kind: 'done' }"],
    ["apply without changes", { kind: "apply" }, "{ kind: 'apply' }"],
    ["retry without a reason", { kind: "retry" }, "{ kind: 'retry' }"],
    ["retry with an error", { kind: "retry", reason: new Error("busy") }, "kind: 'retry'"],
  ])("%s is a failed attempt that says so", async (_, answer, shown) => {
    const id = await engine.thing();
    const other = await engine.thing({ name: "other" });
    const registry = passes({
      provision: { process: ({ row, apply }) => (row.id === id ? (answer as never) : apply({})) },
    });
    expect(await workDue(registry, ports)).toEqual([]);
    const { state, last_error } = await itemOf(engine, id);
    expect([state, last_error]).toEqual([
      "failed",
      expect.stringMatching(/^ANSWER: things\.provision: process answered/),
    ]);
    expect(last_error).toContain(shown);
    expect(await itemOf(engine, other)).toMatchObject({ state: "applied" });
  });
});

describe("time", () => {
  test("a pass that takes too long is ended and told; its batch-mates are not affected", async () => {
    const clock = drivenClock();
    ports = testPorts(engine, { clock, timeLeft: () => 900_000 });
    const id = await engine.thing({ name: "slow" });
    await engine.thing({ name: "quick" });
    const slow = gate<AbortSignal>();
    const registry = passes(
      {
        provision: {
          process: async ({ row, signal, apply }) => {
            if (row.name === "slow") await slow.pass(signal);
            return apply({ set: { status: "active" } });
          },
        },
      },
      { processTimeoutSeconds: 40 },
    );
    const working = workDue(registry, ports);
    const signal = await slow.reached;
    await until(() => clock.waits().includes(15), { what: "the quick one's end" });
    await clock.advance(15);
    await until(async () => (await activeOnes()).length === 1, { what: "the quick one applied" });
    for (let s = 0; s < 39; s++) await clock.advance(1_000);
    expect(signal.aborted).toBe(false);
    await clock.advance(1_000);
    expect(signal.reason).toMatchObject({ code: "PROCESS_TIMEOUT" });
    await working;
    expect(await itemOf(engine, id)).toMatchObject({
      state: "failed",
      last_error: "PROCESS_TIMEOUT: processing took longer than 40 s",
    });
    expect(await activeOnes()).toHaveLength(1);
    slow.open();
    expect(await activeOnes()).toHaveLength(1);
  });

  test("a pass is ended ten seconds before the function is", async () => {
    const clock = drivenClock();
    const from = clock.now();
    ports = testPorts(engine, { clock, timeLeft: () => 25_000 - (clock.now() - from) });
    const id = await engine.thing();
    const slow = gate<AbortSignal>();
    const registry = passes({
      provision: {
        process: async ({ signal, apply }) => {
          await slow.pass(signal);
          return apply({});
        },
      },
    });
    const working = workDue(registry, ports);
    const signal = await slow.reached;
    await clock.advance(14_999);
    expect(signal.aborted).toBe(false);
    await clock.advance(1);
    await working;
    expect(signal.reason).toMatchObject({ code: "WORKER_ENDS" });
    expect(await itemOf(engine, id)).toMatchObject({
      state: "failed",
      last_error: expect.stringMatching(/^WORKER_ENDS/),
    });
  });

  test("without any time left, a claimed row fails at once, and comes again", async () => {
    ports = testPorts(engine, { timeLeft: () => 9_000 });
    const id = await engine.thing();
    const never = gate();
    const registry = passes({ provision: { process: ({ apply }) => never.pass().then(() => apply({})) } });
    await workDue(registry, ports);
    expect(await itemOf(engine, id)).toMatchObject({ state: "failed" });
  });
});

describe("retry", () => {
  test("gives the row back, not as an attempt, and leaves no owner", async () => {
    const id = await engine.thing();
    const attempts: number[] = [];
    const registry = passes({
      provision: {
        process: ({ attempt, retry }) => {
          attempts.push(attempt);
          return retry(`not \0 yet ${"x".repeat(3000)}`);
        },
      },
    });
    await workDue(registry, ports);
    const { state, attempts: counted, last_error } = await itemOf(engine, id);
    expect([state, counted, String(last_error).length]).toEqual(["retried", 0, 2000]);
    const { due_in, ...row } = (await thingOf(engine, id))!;
    expect(row).toMatchObject({ lock_token: null, lock_owner: null });
    expect(Number(due_in)).toBeLessThanOrEqual(0.5);
    expect(ports.events.of("item.retried")).toMatchObject([{ id, attempt: 1 }]);
    await makeDue(id);
    await workDue(registry, ports);
    expect(attempts).toEqual([1, 1]);
  });
});

describe("an answer that the database refuses fails its own item only", () => {
  test.each<[string, object]>([
    ["a broken constraint", { set: { size: 0 } }],
    ["a value out of range", { set: { size: 10_000_000_000 } }],
    ["a text that is no date", { set: { seen_at: "yesterday-ish" } }],
    ["a NUL", { set: { note: "a\0b" } }],
    ["an unknown column", { set: { colour: "red" } }],
    ["a new row without what it needs", { insert: { logs: [{ level: "info" }] } }],
    ["a new row of an unknown table", { insert: { crates: [{ a: 1 }] } }],
    ["a new row with a value that cannot travel", { insert: { logs: [{ message: () => 1 }] } }],
    ["a list of rows that is none", { insert: { logs: 7 } }],
    ["a nested bigint", { set: { spec: { n: 1n } } }],
    ["a date that is none", { set: { seen_at: new Date(Number.NaN) } }],
    ["a column of the engine", { set: { due_at: new Date() } }],
    ["a due that is none", { due: -1 }],
  ])("%s", async (_, changes) => {
    const id = await engine.thing({ name: "bad" });
    await engine.query("insert into things (name) select 'good' from generate_series(1, 3)");
    const registry = passes({
      provision: {
        process: ({ row, apply }) =>
          apply(
            row.name === "bad"
              ? (changes as never)
              : { set: { status: "active" }, insert: { logs: [{ message: "x" }] } },
          ),
      },
    });
    await workDue(registry, ports);
    expect(await activeOnes()).toHaveLength(3);
    expect(await engine.query("select 1 from logs")).toHaveLength(3);
    expect(ports.events.of("item.failed")).toMatchObject([{ id, attempt: 1 }]);
    expect(await itemOf(engine, id)).toMatchObject({ state: "failed", last_error: expect.any(String) });
    expect(await thingOf(engine, id)).toMatchObject({ status: "submitted", lock_token: null });
  });
});
