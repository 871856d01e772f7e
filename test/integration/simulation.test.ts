import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createEngine, type TestEngine } from "../support/engine.ts";
import { type Step, world } from "../support/simulation.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());

const pick = fc.nat(20);
const step = fc.oneof<fc.WeightedArbitrary<Step>[]>(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("fetch"),
      send: fc.constantFrom("accepted", "accepted", "refused", "lost"),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("deliver"),
      pick,
      count: fc.integer({ min: 1, max: 3 }),
      again: fc.boolean(),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("finish"),
      pick,
      how: fc.constantFrom("apply", "apply", "apply", "throw", "retry"),
      answer: fc.constantFrom("heard", "heard", "heard", "lost", "not run"),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("crash"), pick }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("renew"), pick }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("expire"), pick }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("time"), seconds: fc.constantFrom(1, 5, 11, 31, 130) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("request"), pick }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("heartbeat") }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("sweep"), scan: fc.boolean() }) },
);

/*
 * Without the token in the two guards of apply (the row's lock and the write) this seed fails in its first schedule:
 * "step 24: pass 3, begun at 22, was accepted after pass 1 was at 23".
 */
/** `SIMULATION_SEED=…` repeats a run, `SIMULATION_RUNS=…` makes more schedules of it. */
const seed = Number(process.env["SIMULATION_SEED"] ?? 20_261_130);
const numRuns = Number(process.env["SIMULATION_RUNS"] ?? 30);

test("one holder at a time while everything goes wrong; everything done when it stops", async () => {
  let steps = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 3, max: 5 }),
      fc.array(step, { minLength: 1, maxLength: 60, size: "max" }),
      async (rows, schedule) => {
        const all = await world(engine, rows);
        for (const one of schedule) await all.step(one);
        await all.rest();
        steps += schedule.length;
      },
    ),
    { seed, numRuns, interruptAfterTimeLimit: 30_000, markInterruptAsFailure: false },
  );
  expect(steps).toBeGreaterThan(100);
});
