import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { heartbeatLoop } from "../../../lib/index.ts";
import { type DrivenClock, drivenClock } from "../../support/driven-clock.ts";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { passes } from "../../support/passes.ts";
import { type TestPorts, testPorts } from "../../support/ports.ts";
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
  ports = testPorts(engine, { clock, timeLeft: () => 90_000 });
  await setUpkeep(engine, "sweep", 10);
  await setUpkeep(engine, "scan", 10);
});

const loop = () => heartbeatLoop(passes({}), ports);

describe("the sweep", () => {
  test.each([
    ["119 s after the last", 119, 10, []],
    ["two minutes after the last", 121, 10, ["sweep"]],
    ["59 minutes after the last scan", 10, 3_540, []],
    ["an hour after the last scan, in full", 10, 3_601, ["scan"]],
    ["when both are due, in full only", 200, 4_000, ["scan"]],
  ])("%s", async (_, sweepAgo, scanAgo, steps) => {
    await setUpkeep(engine, "sweep", sweepAgo);
    await setUpkeep(engine, "scan", scanAgo);
    await loop();
    expect(ports.statements.map((s) => s.split(" ")[0])).toEqual(["heartbeat", ...steps]);
    await loop();
    expect(ports.statements.filter((s) => /^(sweep|scan)/.test(s))).toHaveLength(steps.length);
  });

  test("the first one of all is in full", async () => {
    await engine.query("truncate millrace.upkeep");
    await loop();
    expect(ports.statements).toEqual(["heartbeat all", "scan all"]);
  });

  test("tells what it freed, and hints the pipelines of that table", async () => {
    await setUpkeep(engine, "sweep", 200);
    await engine.thing();
    await queueRows(engine);
    await engine.past("update things set status = 'failed', lock_expires_at = now() - interval '1 h'");
    await engine.query("update millrace.items set alive_until = now() - interval '1 h'");
    const looping = loop();
    await until(() => clock.waits().length > 0, { what: "the end of the tick" });
    await clock.advance(TICK_MS);
    await looping;
    expect(ports.events.of("locks.swept")).toEqual([{ table: "things", unlocked: 1, ended: 1, deleted: 0 }]);
    expect(ports.hinted).toEqual([
      { pipeline: "things", delaySeconds: 0 },
      { pipeline: "checks", delaySeconds: 0 },
    ]);
    expect(await lockSeconds(engine)).toEqual([]);
  });

  test("that frees nothing says nothing", async () => {
    await setUpkeep(engine, "sweep", 200);
    await loop();
    expect([ports.events.of("locks.swept"), ports.hinted]).toEqual([[], []]);
  });
});
