import type { CfnResource } from "aws-cdk-lib";
import type { CfnFunction } from "aws-cdk-lib/aws-lambda";
import type { CfnQueue } from "aws-cdk-lib/aws-sqs";
import type { IConstruct } from "constructs";
import { describe, expect, it } from "vitest";
import { checkSettings } from "../../infra/aws/check-settings.ts";
import { type Consumer, checkConsumer, checkFunctionTimeout } from "../../infra/aws/checks.ts";
import { infraErrors } from "../../infra/aws/errors.ts";
import type { MillraceStack } from "../../infra/aws/stack.ts";
import { type Settings, settingsOf } from "../../infra/settings.ts";
import { manifest, resourcesOf, volumes } from "./assemble.ts";

const settings = settingsOf("dev");

/** Every number as tight as it may be. */
const consumer: Consumer = {
  name: "volumes",
  functionTimeout: 900,
  reservedConcurrency: 3,
  otherCallers: 1,
  maxConcurrency: 2,
  batchSize: 10,
  window: 5,
  visibility: 5405,
  retention: 100,
  receiveCount: 5,
  deadLetterRetention: 101,
};

describe("a queue and its function", () => {
  it("fit when every number is at its limit", () => {
    expect(() => checkConsumer(consumer)).not.toThrow();
    expect(() => checkConsumer({ ...consumer, reservedConcurrency: undefined })).not.toThrow();
  });

  it.each<[Partial<Consumer>, string]>([
    [{ functionTimeout: 901 }, "FUNCTION_TIMEOUT: volumes asks for a timeout of 901 s; Lambda allows 1 to 900 s"],
    [{ functionTimeout: 0 }, "FUNCTION_TIMEOUT: volumes asks for a timeout of 0 s"],
    [{ maxConcurrency: 1 }, "MAX_CONCURRENCY: volumes asks for 1 functions at once"],
    [{ maxConcurrency: 1001, reservedConcurrency: undefined }, "MAX_CONCURRENCY: volumes asks for 1001 functions"],
    [{ batchSize: 11 }, "BATCH_SIZE: volumes asks for batches of 11 messages"],
    [{ batchSize: 0 }, "BATCH_SIZE: volumes asks for batches of 0 messages"],
    [{ visibility: 5404 }, "VISIBILITY: queue volumes hides a message for 5404 s; its function's timeout of 900 s"],
    [{ window: 6 }, "need 6 × 900 + 6 = 5406 s"],
    [{ reservedConcurrency: 2 }, "RESERVED_CONCURRENCY: volumes is reserved 2 places, but its queue takes 2 and other"],
    [{ receiveCount: 4 }, "RECEIVE_COUNT: queue volumes gives up on a message after 4 receives"],
    [
      { deadLetterRetention: 100 },
      "RETENTION: queue volumes keeps messages for 100 s and its dead-letter queue for 100",
    ],
  ])("do not fit with %o", (change, message) => {
    expect(() => checkConsumer({ ...consumer, ...change })).toThrow(message);
  });

  it("take no timeout that is no number", () => {
    expect(() => checkFunctionTimeout("volumes", Number.NaN)).toThrow("FUNCTION_TIMEOUT");
  });
});

describe("a schedule", () => {
  const pausing = { ...settings.database, minCapacity: 0, autoPauseMinutes: 10 };

  it.each([0, -1, 0.5, 1.5, Number.NaN])("of %d minutes is refused", (schedulePeriodMinutes) => {
    expect(() => checkSettings({ ...settings, schedulePeriodMinutes })).toThrow(
      `SCHEDULE_PERIOD: schedulePeriodMinutes is ${schedulePeriodMinutes}`,
    );
  });

  it("must leave a database time to pause", () => {
    expect(() => checkSettings({ ...settings, database: pausing, schedulePeriodMinutes: 10 })).toThrow(
      "AUTO_PAUSE: minCapacity 0 lets the database pause after 10 idle minutes, but a schedule of 10 min",
    );
    expect(() => checkSettings({ ...settings, database: pausing, schedulePeriodMinutes: 11 })).not.toThrow();
    expect(() => checkSettings({ ...settings, schedulePeriodMinutes: 1 })).not.toThrow();
  });
});

describe("synthesis refuses", () => {
  const withVolumes = (change: Partial<typeof volumes>) => ({
    manifest: { ...manifest, pipelines: [{ ...volumes, ...change }] },
  });
  const withConcurrency = (change: Partial<Settings["concurrency"]>) => ({
    settings: { ...settings, concurrency: { ...settings.concurrency, ...change } },
  });

  it.each([
    [
      "a worker that runs too long",
      withVolumes({ functionTimeoutSeconds: 930 }),
      "FUNCTION_TIMEOUT: volumes asks for a timeout of 930 s",
    ],
    ["one worker at once", withVolumes({ maxConcurrency: 1 }), "MAX_CONCURRENCY: volumes asks for 1 functions"],
    ["large batches", withVolumes({ batchSize: 20 }), "BATCH_SIZE: volumes asks for batches of 20 messages"],
    [
      "too few fetchers",
      withConcurrency({ fetcher: 5 }),
      "RESERVED_CONCURRENCY: hints is reserved 5 places, but its queue takes 5",
    ],
    [
      "part of a minute",
      { settings: { ...settings, schedulePeriodMinutes: 0.5 } },
      "SCHEDULE_PERIOD: schedulePeriodMinutes is 0.5",
    ],
    [
      "a pipeline that takes the hint queue's name",
      withVolumes({ name: "hints" }),
      'DUPLICATE_NAME: two resources of type AWS::SQS::Queue are named "hints-dead"',
    ],
  ])("%s", (_, options, message) => {
    expect(() => resourcesOf(options)).toThrow(message);
  });

  it("more database calls at once than the budget, with every summand", () => {
    const parts =
      "migrate 1 × 2 + worker-volumes 2 × 2 + worker-jobs-running 3 × 2 + heartbeater 2 × 2 + fetcher 6 × 2 + api 10 × 2";
    expect(() => resourcesOf(withConcurrency({ connectionBudget: 47 }))).toThrow(
      expect.objectContaining({
        code: "CONNECTION_BUDGET",
        message: expect.stringContaining(`48 are needed (${parts})`),
      }),
    );
    expect(() => resourcesOf(withConcurrency({ connectionBudget: 48 }))).not.toThrow();
  });
});

describe("synthesis checks overrides too", () => {
  const queue = ({ pipelines: { queues } }: MillraceStack) => resourceOf<CfnQueue>(queues, "volumes");
  const dead = ({ pipelines: { deadLetterQueues } }: MillraceStack) =>
    resourceOf<CfnQueue>(deadLetterQueues, "volumes");
  const worker = ({ pipelines: { workers } }: MillraceStack) => resourceOf<CfnFunction>(workers, "volumes");
  const set = (path: string, value: unknown) => (resource: CfnResource) => resource.addPropertyOverride(path, value);

  it.each<[string, (stack: MillraceStack) => void]>([
    ["VISIBILITY: queue volumes hides a message for 539 s", (s) => set("VisibilityTimeout", 539)(queue(s))],
    ["need 6 × 120 + 0 = 720 s", (s) => set("Timeout", 120)(worker(s))],
    ["FUNCTION_TIMEOUT: worker-volumes asks for a timeout of 1000 s", (s) => set("Timeout", 1000)(worker(s))],
    ["RETENTION: queue volumes keeps messages for 345600 s", (s) => set("MessageRetentionPeriod", 345_600)(dead(s))],
    ["RECEIVE_COUNT: queue volumes gives up", (s) => set("RedrivePolicy.maxReceiveCount", 4)(queue(s))],
    ["NO_DEAD_LETTERS: queue volumes has no", (s) => queue(s).addPropertyDeletionOverride("RedrivePolicy")],
    ["RESERVED_CONCURRENCY: volumes is reserved 1", (s) => set("ReservedConcurrentExecutions", 1)(worker(s))],
    [
      "RESERVED_CONCURRENCY: hints is reserved 5 places, but its queue takes 5 and other callers 1",
      (s) => set("ReservedConcurrentExecutions", 5)(s.pipelines.fetcher.node.defaultChild as CfnFunction),
    ],
    [
      "UNBOUNDED_FUNCTION: api may run any number of times",
      (s) =>
        (s.api.handler.node.defaultChild as CfnFunction).addPropertyDeletionOverride("ReservedConcurrentExecutions"),
    ],
    [
      "TRIGGER_TIMEOUT: the deployment waits 839 s for migrate, whose own timeout is 840 s",
      (s) => set("Timeout", "839000")(s.migrations.trigger.node.findChild("Default").node.defaultChild as CfnResource),
    ],
  ])("%s", (message, change) => {
    expect(() => resourcesOf({ change })).toThrow(message);
  });
});

function resourceOf<T extends CfnResource>(constructs: Readonly<Record<string, IConstruct>>, name: string): T {
  return constructs[name]!.node.defaultChild as T;
}

it("every error says what it is for", () => {
  for (const [code, text] of Object.entries(infraErrors)) {
    expect(code).toMatch(/^[A-Z][A-Z0-9_]+$/);
    expect(text.length).toBeGreaterThan(20);
  }
});
