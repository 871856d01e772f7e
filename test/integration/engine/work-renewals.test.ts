import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type Database, MillraceError, type Ports } from "../../../lib/index.ts";
import { type DrivenClock, drivenClock } from "../../support/driven-clock.ts";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { type Gate, gate } from "../../support/gate.ts";
import { passes } from "../../support/passes.ts";
import { counts, type TestPorts, testPorts, workDue } from "../../support/ports.ts";
import { until } from "../../support/until.ts";

/** A third of the lease of 21 s. */
const THIRD_MS = 7_000;

let engine: TestEngine;
let clock: DrivenClock;
let ports: TestPorts;
let inside: Gate<AbortSignal>;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(async () => {
  await engine.clear();
  clock = drivenClock();
  inside = gate();
  ports = portsWith();
});

const portsWith = (overrides: Partial<Ports> = {}) =>
  testPorts(engine, { clock, timeLeft: () => 900_000, ...overrides });

const held = (undone: unknown[] = []) =>
  passes(
    {
      provision: {
        process: async ({ row, signal, apply }) => {
          if (row.name !== "quick") await inside.pass(signal);
          return apply({ set: { status: "active" } });
        },
        onStale: async ({ row }) => {
          undone.push(row.id);
        },
      },
    },
    { leaseSeconds: 21, processTimeoutSeconds: 600 },
  );

const renewals = () => counts(ports.statements)["renew"] ?? 0;
/** Lets a third of the lease go by, and waits for the renewal. */
async function renewal(): Promise<void> {
  const before = renewals();
  await until(() => clock.waits().includes(THIRD_MS), { what: "the next renewal's wait" });
  await clock.advance(THIRD_MS);
  expect(renewals()).toBe(before + 1);
  await until(() => clock.waits().includes(THIRD_MS), { what: "the renewal's end" });
}

/** Seconds that each item still counts as alive, and its lock lasts. */
const lives = async () =>
  Object.fromEntries(
    (
      await engine.query<{ name: string; alive: number; lock: number }>(
        `select name, round(extract(epoch from i.alive_until - now()))::int as alive, round(extract(epoch from t.lock_expires_at - now()))::int as lock
         from things t join millrace.items i on i.item_id = t.id`,
      )
    ).map(({ name, alive, lock }) => [name, [alive, lock]]),
  );
/** As if so much time had gone by in the database. */
const age = (seconds: number) =>
  engine.query(
    `with t as (update things set lock_expires_at = lock_expires_at - make_interval(secs => ${seconds}) returning 1)
     update millrace.items set alive_until = alive_until - make_interval(secs => ${seconds})`,
  );

test("a pass is renewed every third of its lease, and no more when it has ended", async () => {
  await engine.thing({ name: "slow" });
  const working = workDue(held(), ports);
  await inside.reached;
  expect(renewals()).toBe(0);
  for (const _ of [1, 2, 3]) {
    await age(7);
    expect(await lives()).toEqual({ slow: [14, expect.any(Number)] });
    await renewal();
    expect(await lives()).toEqual({ slow: [21, 30] });
  }
  inside.open();
  await working;
  expect(renewals()).toBe(3);
  expect(clock.waits()).toEqual([]);
});

test("a pass whose lock is lost is told at the next renewal; its apply is stale and undone", async () => {
  const id = await engine.thing({ name: "slow" });
  await engine.thing({ name: "also slow" });
  const undone: unknown[] = [];
  const working = workDue(held(undone), ports);
  const signal = await inside.reached;
  await renewal();
  expect(signal.aborted).toBe(false);
  await engine.query("update things set lock_token = gen_random_uuid(), lock_owner = 'things'");
  await renewal();
  expect(signal.aborted).toBe(true);
  expect(signal.reason).toMatchObject({ code: "LOCK_LOST", details: { pipeline: "things" } });
  // nobody renews for a pass that was told to stop
  await clock.advance(THIRD_MS);
  expect(renewals()).toBe(2);
  inside.open();
  await until(() => clock.waits().includes(15) || ports.statements.includes("apply things"), { what: "the ending" });
  await clock.advance(15);
  await working;
  expect(undone).toContain(id);
  expect(undone).toHaveLength(2);
});

test("a lock that is lost is one row's affair", async () => {
  await engine.thing({ name: "lost" });
  await engine.thing({ name: "kept" });
  const signals: Record<string, AbortSignal> = {};
  const registry = passes(
    {
      provision: {
        process: async ({ row, signal, apply }) => {
          signals[row.name] = signal;
          if (Object.keys(signals).length === 2) void inside.pass(signal);
          await gates[row.name as "lost" | "kept"].pass();
          return apply({ set: { status: "active" } });
        },
      },
    },
    { leaseSeconds: 21, processTimeoutSeconds: 600 },
  );
  const gates = { lost: gate(), kept: gate() };
  const working = workDue(registry, ports);
  await inside.reached;
  await engine.query("update things set lock_token = gen_random_uuid() where name = 'lost'");
  await renewal();
  expect([signals["lost"]!.aborted, signals["kept"]!.aborted]).toEqual([true, false]);
  gates.lost.open();
  await clock.advance(15);
  gates.kept.open();
  await clock.advance(600);
  await until(() => counts(ports.statements)["apply"] === 2 || clock.waits().length === 0, { what: "both" });
  await clock.advance(600);
  await working;
  expect(ports.events.of("item.stale")).toHaveLength(1);
  expect(ports.events.of("item.applied")).toHaveLength(1);
});

test("what has ended is not renewed while its apply is on its way", async () => {
  const applying = gate();
  const run = async (...[statement, options]: Parameters<Database["run"]>) => {
    if (statement.name === "apply things") await applying.pass();
    return engine.api.run(statement, options);
  };
  ports = portsWith({ database: { run } as Database });
  await engine.thing({ name: "slow" });
  await engine.thing({ name: "quick" });
  const working = workDue(held(), ports);
  await inside.reached;
  await until(() => clock.waits().includes(15), { what: "the quick one's end" });
  await clock.advance(15);
  await applying.reached;
  await age(7);
  await until(() => clock.waits().includes(THIRD_MS - 15), { what: "the renewal's wait" });
  await clock.advance(THIRD_MS - 15);
  await until(() => clock.waits().includes(THIRD_MS), { what: "the renewal's end" });
  expect(await lives()).toEqual({ slow: [21, 30], quick: [14, expect.any(Number)] });
  inside.open();
  applying.open();
  await clock.advance(600);
  await working;
  expect(ports.events.of("item.applied")).toHaveLength(2);
});

test("nobody is alive beyond the end of the function", async () => {
  let left = 900_000;
  ports = portsWith({ timeLeft: () => left });
  await engine.thing({ name: "slow" });
  const working = workDue(held(), ports);
  await inside.reached;
  left = 8_000;
  await renewal();
  expect(await lives()).toEqual({ slow: [8, 18] });
  left = -1_000;
  await renewal();
  expect(await lives()).toEqual({ slow: [0, 10] });
  inside.open();
  await working;
});

test("a renewal that fails is reported, aborts nothing, and the next one is tried", async () => {
  let down = true;
  const run = async (...[statement, options]: Parameters<Database["run"]>) => {
    if (statement.name === "renew things" && down) {
      down = false;
      throw new MillraceError("DATABASE_UNANSWERED", { statement: statement.name });
    }
    return engine.api.run(statement, options);
  };
  ports = portsWith({ database: { run } as Database });
  await engine.thing({ name: "slow" });
  const working = workDue(held(), ports);
  const signal = await inside.reached;
  await renewal();
  expect(ports.events.of("renewal.failed")).toEqual([
    { pipeline: "things", error: "renew things got no answer in time; whether it ran is not known" },
  ]);
  expect(signal.aborted).toBe(false);
  await age(7);
  await renewal();
  expect(await lives()).toEqual({ slow: [21, 30] });
  inside.open();
  await working;
  expect(ports.events.of("item.applied")).toHaveLength(1);
});
