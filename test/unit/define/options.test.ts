import { describe, expect, test } from "vitest";
import { completeOptions, maxConcurrency, queueLimit, queueLower, renewSeconds } from "../../../lib/define/options.ts";
import { checkConnectionBudget, PIPELINE_DEFAULTS, type PipelineOptions } from "../../../lib/index.ts";

const complete = (options: PipelineOptions = {}) => completeOptions("p", options);

test("no options are the defaults, but for a batch that two functions can share", () => {
  expect(complete()).toEqual({ ...PIPELINE_DEFAULTS, batchSize: 5 });
});

describe("impossible numbers are refused, with the number", () => {
  test.each<[PipelineOptions, string]>([
    [{ workers: 1 }, "p: workers is 1, but must be a whole number from 2 to 10000"],
    [{ workers: 2.5 }, "p: workers is 2.5, but must be a whole number from 2 to 10000"],
    [{ workers: Number.NaN }, "p: workers is NaN, but must be a whole number from 2 to 10000"],
    [{ batchSize: 0 }, "p: batchSize is 0, but must be a whole number from 1 to 10"],
    [{ batchSize: 11 }, "p: batchSize is 11, but must be a whole number from 1 to 10"],
    [{ lockTimeoutSeconds: 0 }, "p: lockTimeoutSeconds is 0, but must be a number from 0.001 to 1000000"],
    [{ leaseSeconds: -1 }, "p: leaseSeconds is -1, but must be a number from 0.001 to 1000000"],
    [
      { heartbeatTickSeconds: Number.POSITIVE_INFINITY },
      "p: heartbeatTickSeconds is Infinity, but must be a number from 0.001 to 1000000",
    ],
    [{ processTimeoutSeconds: 871 }, "p: processTimeoutSeconds is 871, but must be a whole number from 1 to 870"],
    [{ queueUpperFactor: 0 }, "p: queueUpperFactor is 0, but must be a number from 0.001 to 1000"],
    [{ maxAttempts: 0 }, "p: maxAttempts is 0, but must be a whole number from 1 to 1000000"],
    [{ backoff: { factor: 0.5 } }, "p: backoff.factor is 0.5, but must be a number from 1 to 1000"],
    [{ backoff: { maxSeconds: 1e300 } }, "p: backoff.maxSeconds is 1e+300, but must be a number from 0.001 to 1000000"],
    [{ lockTimeoutSeconds: 1e7 }, "p: lockTimeoutSeconds is 10000000, but must be a number from 0.001 to 1000000"],
    [{ queueUpperFactor: 1e300 }, "p: queueUpperFactor is 1e+300, but must be a number from 0.001 to 1000"],
    [{ leaseSeconds: Object.create(null) }, "p: leaseSeconds is object, but must be a number from 0.001 to 1000000"],
    [{ backoff: { jitter: "0.2" as never } }, "p: backoff.jitter is 0.2, but must be a number from 0 to 0.99"],
    [{ backoff: { jitter: 1 } }, "p: backoff.jitter is 1, but must be a number from 0 to 0.99"],
  ])("%o", (options, message) => {
    expect(() => complete(options)).toThrow(expect.objectContaining({ code: "OPTION", message }));
  });
});

describe("broken relations are refused, with both numbers", () => {
  test.each<[PipelineOptions, string]>([
    [{ heartbeatTickSeconds: 15 }, "p: heartbeatTickSeconds (15) must be less than heartbeatTriggerSeconds (15)"],
    [
      { lockTimeoutSeconds: 15, leaseSeconds: 10 },
      "p: heartbeatTriggerSeconds (15) must be less than lockTimeoutSeconds (15)",
    ],
    [{ leaseSeconds: 31 }, "p: leaseSeconds (31) must be at most lockTimeoutSeconds (30)"],
    [{ queueLowerFactor: 3 }, "p: queueLowerFactor (3) must be at most queueUpperFactor (2)"],
    [{ backoff: { firstSeconds: 301 } }, "p: backoff.firstSeconds (301) must be at most backoff.maxSeconds (300)"],
  ])("%o", (options, message) => {
    expect(() => complete(options)).toThrow(expect.objectContaining({ code: "OPTION_RELATION", message }));
  });
});

test.each([
  // workers, batch asked for, batch, functions at once
  [20, 10, 10, 2],
  [10, 10, 5, 2],
  [2, 10, 1, 2],
  [3, 10, 1, 3],
  [100, 10, 10, 10],
  [7, 2, 2, 4],
])("%i workers in batches of %i: %i a batch, %i functions", (workers, asked, batchSize, functions) => {
  const options = complete({ workers, batchSize: asked });
  expect(options.batchSize).toBe(batchSize);
  expect(maxConcurrency(options)).toBe(functions);
});

test("limits that follow from the options", () => {
  const options = complete({ workers: 3, queueLowerFactor: 0.5, queueUpperFactor: 1.5, leaseSeconds: 18 });
  expect([queueLower(options), queueLimit(options), renewSeconds(options)]).toEqual([2, 5, 6]);
});

describe("connection budget", () => {
  const users = [
    { name: "worker", concurrency: 10, callsInFlight: 2 },
    { name: "fetcher", concurrency: 5, callsInFlight: 1 },
  ];
  test("answers the sum that fits", () => expect(checkConnectionBudget(users, 25)).toBe(25));
  test("is refused with the sum and its parts", () => {
    expect(() => checkConnectionBudget(users, 24)).toThrow(
      "connections: 25 are needed (worker 10 × 2 + fetcher 5 × 1), the budget is 24",
    );
  });
});
