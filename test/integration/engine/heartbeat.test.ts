import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Database, heartbeatLoop, MillraceError, type Ports, registry } from "../../../lib/index.ts";
import { type DrivenClock, drivenClock } from "../../support/driven-clock.ts";
import { check, createEngine, provision, remove, type TestEngine, things } from "../../support/engine.ts";
import { passes } from "../../support/passes.ts";
import { counts, type TestPorts, testPorts } from "../../support/ports.ts";
import { until } from "../../support/until.ts";
import { lockSeconds, queueRows, setUpkeep } from "../../support/upkeep.ts";

const TICK_MS = 10_000;

let engine: TestEngine;
let clock: DrivenClock;
let ports: TestPorts;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(async () => {
  await engine.clear();
  clock = drivenClock();
  ports = portsWith();
  await setUpkeep(engine, "sweep", 10);
  await setUpkeep(engine, "scan", 10);
});

const portsWith = (overrides: Partial<Ports> = {}) =>
  testPorts(engine, { clock, timeLeft: () => 90_000, ...overrides });
const loop = (of: Ports = ports) => heartbeatLoop(passes({}), of);
const beats = () => counts(ports.statements)["heartbeat"];
/** Resolves when the loop waits for its next tick. */
const ticked = () => until(() => clock.waits().length > 0, { what: "the end of the tick" });
const nextTick = async (ms = TICK_MS) => {
  await ticked();
  expect(clock.waits()).toEqual([ms]);
  await clock.advance(ms);
};

describe("the loop", () => {
  test("ends at once when nothing is in flight", async () => {
    await engine.thing();
    await loop();
    expect(ports.statements).toEqual(["heartbeat all"]);
    expect(ports.hinted).toEqual([]);
  });

  test("ticks while anything is in flight, extends its locks, and ends with it", async () => {
    await engine.thing();
    await queueRows(engine);
    const looping = loop();
    await nextTick();
    await engine.query("update things set lock_expires_at = now() + interval '14 s'");
    await nextTick();
    await ticked();
    expect(await lockSeconds(engine)).toEqual([30]);
    await engine.query("update millrace.items set finished_at = now()");
    await nextTick();
    await looping;
    expect(beats()).toBe(4);
    expect(ports.events.of("locks.extended")).toEqual([
      { pipeline: "things", watched: 1, extended: 1, late: 0, lost: 0 },
    ]);
  });

  test("lasts a minute; then a fetch looks where no schedule has started the next", async () => {
    await engine.thing();
    await queueRows(engine);
    const looping = loop();
    for (let n = 0; n < 5; n++) await nextTick();
    await looping;
    expect(beats()).toBe(6);
    expect(ports.hinted).toEqual([{ pipeline: "things", delaySeconds: 21 }]);
  });

  test("keeps the pace when a tick takes its time", async () => {
    await engine.thing();
    await queueRows(engine);
    const run = async (...[statement, options]: Parameters<Database["run"]>) => {
      const answered = await engine.api.run(statement, options);
      await clock.advance(3_000);
      return answered;
    };
    const looping = loop({ ...ports, database: { run } as Database });
    await nextTick(TICK_MS - 3_000);
    await ticked();
    await engine.query("update millrace.items set finished_at = now()");
    await nextTick(TICK_MS - 3_000);
    await looping;
  });

  test("ends when the function's time is nearly up", async () => {
    await engine.thing();
    await queueRows(engine);
    let left = 20_000;
    const short = { ...ports, timeLeft: () => left };
    const looping = loop(short);
    await nextTick();
    left = 19_999;
    await looping;
    expect(beats()).toBe(2);
  });

  test("ticks as often as the pipeline that wants it most", async () => {
    await engine.thing();
    await queueRows(engine);
    const two = registry<unknown>([
      things.pipeline("things", { provision, remove }),
      things.pipeline("checks", { check }, { heartbeatTickSeconds: 4 }),
    ]);
    const looping = heartbeatLoop(two, ports);
    await nextTick(4_000);
    await ticked();
    await engine.query("update millrace.items set finished_at = now()");
    await nextTick(4_000);
    await looping;
  });

  test("reports a tick that fails, and goes on", async () => {
    await engine.thing();
    await queueRows(engine);
    let failures = 2;
    const run = async (...[statement, options]: Parameters<Database["run"]>) => {
      if (failures-- > 0) throw new MillraceError("DATABASE_REFUSED", { statement: statement.name, message: "down" });
      return engine.api.run(statement, options);
    };
    ports = portsWith({ database: { run } as Database });
    const looping = loop();
    await nextTick();
    await nextTick();
    await ticked();
    await engine.query("update millrace.items set finished_at = now()");
    await nextTick();
    await looping;
    expect(ports.events.of("heartbeat.failed")).toHaveLength(2);
    expect(ports.events.of("heartbeat.failed")[0]).toEqual({
      error: "MillraceError: heartbeat all was refused: down",
    });
  });
});

describe("one tick", () => {
  test("sends lost messages again, each to the queue of its pipeline", async () => {
    await engine.thing();
    await engine.thing({ status: "active" });
    const [thing] = await queueRows(engine);
    const [checked] = await queueRows(engine, "checks");
    await engine.query("update millrace.items set queued_at = now() - interval '40 s'");
    const looping = loop();
    await ticked();
    const expected = [
      { pipeline: "things", ...thing },
      { pipeline: "checks", ...checked },
    ];
    expect(ports.sent).toHaveLength(2);
    expect(ports.sent).toEqual(expect.arrayContaining(expected));
    expect(ports.events.of("items.resent")).toEqual(
      expect.arrayContaining([
        { pipeline: "things", count: 1 },
        { pipeline: "checks", count: 1 },
      ]),
    );
    // not again with every tick
    await nextTick();
    await ticked();
    expect(ports.sent).toHaveLength(2);
    await engine.query("update millrace.items set finished_at = now()");
    await nextTick();
    await looping;
  });

  test("a queue that is missing costs nobody the heartbeat", async () => {
    const id = await engine.thing();
    await queueRows(engine);
    await engine.query("update millrace.items set queued_at = now() - interval '31 s'");
    await engine.query("update things set lock_expires_at = now() + interval '1 s' where id = $1", [id]);
    await setUpkeep(engine, "sweep", 130);
    const send = async () => {
      throw new MillraceError("ENVIRONMENT", { variable: "ITEM_QUEUE_URLS", problem: "without a queue" });
    };
    ports = portsWith({ items: { send } });
    const looping = loop();
    await ticked();
    expect(ports.events.of("heartbeat.failed")).toHaveLength(1);
    expect(ports.events.of("locks.extended")).toMatchObject([{ extended: 1 }]);
    expect(counts(ports.statements)["sweep"]).toBe(1);
    await engine.clear();
    await nextTick();
    await looping;
  });

  test("hints a pipeline whose row waits under an expired lock, and no other", async () => {
    await engine.thing();
    await engine.thing({ status: "active" });
    await queueRows(engine);
    await queueRows(engine, "checks");
    await engine.query(
      "update things set lock_expires_at = now() - interval '1 s', due_at = now() - interval '1 s' where status = 'submitted'",
    );
    await engine.query("update millrace.items set alive_until = now() - interval '1 s' where pipeline = 'things'");
    const looping = loop();
    await ticked();
    expect(ports.hinted).toEqual([{ pipeline: "things", delaySeconds: 0 }]);
    await engine.query("update millrace.items set finished_at = now()");
    await nextTick();
    await looping;
  });
});

describe("a row that nobody keeps alive", () => {
  test("is hinted at for the moment when its lock ends, also while other ticks are to come", async () => {
    await engine.thing();
    await queueRows(engine);
    await engine.query("update things set lock_expires_at = now() + interval '7 s', due_at = now() - interval '1 s'");
    await engine.query("update millrace.items set alive_until = now() - interval '1 s'");
    const looping = loop();
    await ticked();
    const [hint, ...more] = ports.hinted;
    expect(more).toEqual([]);
    expect(hint).toMatchObject({ pipeline: "things", at: expect.any(String) });
    expect(hint!.delaySeconds).toBeGreaterThan(4);
    expect(hint!.delaySeconds).toBeLessThanOrEqual(7);
    expect(Date.parse((hint as { at: string }).at)).toBe(clock.now() + hint!.delaySeconds * 1000);
    await engine.query("update millrace.items set finished_at = now()");
    await nextTick();
    await looping;
  });
});
