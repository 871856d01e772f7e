import { afterAll, beforeAll, expect, test } from "vitest";
import { type EventSourceSpec, startEventSource } from "../../../infra/local/event-sources.ts";
import type { FunctionSpec } from "../../../infra/local/lambda/function-spec.ts";
import { makeFunction, type TestFunction } from "../../support/local-functions.ts";
import { startQueues, type TestQueues } from "../../support/local-queues.ts";
import { until } from "../../support/until.ts";

/** Does what the messages' bodies say and prints what it saw. */
const HANDLER = `
  import { setTimeout as work } from "node:timers/promises";
  export const handler = async (event) => {
    const bodies = event.Records.map((record) => JSON.parse(record.body));
    console.log(JSON.stringify({ saw: bodies.map(({ id }) => id), counts: event.Records.map((r) => r.attributes.ApproximateReceiveCount), record: event.Records[0] }));
    await work(Math.max(0, ...bodies.map(({ ms = 0 }) => ms)));
    if (bodies.some(({ does }) => does === "throw")) throw new Error("as told");
    if (bodies.some(({ does }) => does === "hang")) await new Promise(() => {});
    if (bodies.some(({ does }) => does === "exit")) process.exit(1);
    const answer = bodies.find(({ answer }) => answer !== undefined)?.answer;
    if (answer !== undefined) return answer;
    const failed = event.Records.filter((_, i) => bodies[i].does === "fail");
    return { batchItemFailures: failed.map(({ messageId }) => ({ itemIdentifier: messageId })) };
  };
`;

interface Saw {
  readonly saw: readonly string[];
  readonly counts: readonly string[];
  readonly record: Record<string, unknown>;
}

interface Rig extends AsyncDisposable {
  readonly made: TestFunction;
  readonly queue: string;
  /** Sends all bodies in one batch, so that one receive gets them all. */
  send(...bodies: readonly object[]): Promise<void>;
  /** The invocations so far. */
  saw(): readonly Saw[];
  /** Ids of the messages deleted and received so far, by body. */
  deleted(): readonly string[];
  poll(): void;
}

let queues: TestQueues;
let count = 0;

beforeAll(async () => {
  queues = await startQueues();
});
afterAll(() => queues[Symbol.asyncDispose]());

/** A queue with a mapping to a function, not polled before `poll`. */
async function rig(mapping: Partial<EventSourceSpec> = {}, fn: Partial<FunctionSpec> = {}): Promise<Rig> {
  count += 1;
  const queue = `source-${count}`;
  const visibilitySeconds = mapping.visibilitySeconds ?? 1;
  await queues.sqs.createQueue(queue, { VisibilityTimeout: String(visibilitySeconds) });
  const made = makeFunction(HANDLER, fn);
  const spec = {
    queue,
    queueArn: `arn:aws:sqs:us-east-1:000000000000:${queue}`,
    batchSize: 10,
    windowSeconds: 0,
    concurrency: 2,
    reportsItemFailures: true,
    ...mapping,
    visibilitySeconds,
  };
  let source: ReturnType<typeof startEventSource> | undefined;
  const idOf = (messageId: string | undefined) => {
    const sent = queues.log().find((line) => line.op === "send" && line.messageId === messageId);
    return JSON.parse(sent?.body ?? "{}").id as string;
  };
  return {
    made,
    queue,
    poll: () => {
      source ??= startEventSource(spec, made.fn, queues.sqs);
    },
    async send(...bodies) {
      const Entries = bodies.map((body, i) => ({ Id: String(i), MessageBody: JSON.stringify(body) }));
      await queues.sqs.handle("SendMessageBatch", { QueueUrl: queues.url(queue), Entries });
    },
    saw: () =>
      made
        .log()
        .split("\n")
        .filter((line) => line.startsWith('{"saw"'))
        .map((line) => JSON.parse(line)),
    deleted: () =>
      queues
        .log()
        .filter((line) => line.queue === queue && line.op === "delete")
        .map(({ messageId }) => idOf(messageId)),
    async [Symbol.asyncDispose]() {
      made.fn.stop();
      await source?.close();
      await made[Symbol.asyncDispose]();
    },
  };
}

const ids = (saw: readonly Saw[]) => saw.map((each) => each.saw);
const times = (saw: readonly Saw[], id: string) => saw.filter((each) => each.saw.includes(id)).length;

test("a batch is one event with all that a record has", async () => {
  await using r = await rig();
  await r.send({ id: "a" }, { id: "b" });
  r.poll();
  await until(() => r.deleted().length === 2, { what: "both deletions" });
  expect(ids(r.saw())).toEqual([["a", "b"]]);
  expect(r.saw()[0]!.record).toEqual({
    messageId: expect.any(String),
    receiptHandle: expect.any(String),
    body: '{"id":"a"}',
    attributes: {
      ApproximateReceiveCount: "1",
      SentTimestamp: expect.stringMatching(/^\d{13}$/),
      SenderId: expect.any(String),
      ApproximateFirstReceiveTimestamp: expect.stringMatching(/^\d{13}$/),
    },
    messageAttributes: {},
    md5OfBody: expect.stringMatching(/^[0-9a-f]{32}$/),
    eventSource: "aws:sqs",
    eventSourceARN: `arn:aws:sqs:us-east-1:000000000000:${r.queue}`,
    awsRegion: "us-east-1",
  });
});

test.each([
  ["null", null],
  ["{}", {}],
  ["a null list", { batchItemFailures: null }],
  ["an empty list", { batchItemFailures: [] }],
])("an answer of %s deletes all", async (_, answer) => {
  await using r = await rig();
  await r.send({ id: "a", answer }, { id: "b" });
  r.poll();
  await until(() => r.deleted().length === 2, { what: "both deletions" });
  expect(ids(r.saw())).toEqual([["a", "b"]]);
});

test("a reported message stays and comes back after the visibility timeout, the others are deleted", async () => {
  await using r = await rig();
  await r.send({ id: "a" }, { id: "bad", does: "fail" }, { id: "c" });
  r.poll();
  await until(() => times(r.saw(), "bad") === 2, { what: "the failed message again" });
  expect([...r.deleted()].sort()).toEqual(["a", "c"]);
  expect(r.saw()[1]).toMatchObject({ saw: ["bad"], counts: ["2"] });
  const receives = queues.log().filter((line) => line.queue === r.queue && line.op === "receive");
  const [first, last] = [receives[0], receives.at(-1)] as unknown as { at: string; count: number }[];
  expect(last!.count).toBe(2);
  expect(Date.parse(last!.at) - Date.parse(first!.at)).toBeGreaterThanOrEqual(999);
});

test.each([
  ["an id that is not in the batch", { id: "a", answer: { batchItemFailures: [{ itemIdentifier: "what" }] } }],
  ["an empty id", { id: "a", answer: { batchItemFailures: [{ itemIdentifier: "" }] } }],
  ["a wrong key", { id: "a", answer: { batchItemFailures: [{ messageId: "x" }] } }],
  ["a thrown error", { id: "a", does: "throw" }],
  ["an ended process", { id: "a", does: "exit" }],
  ["a timeout", { id: "a", does: "hang" }],
])("%s fails the whole batch", async (_, body) => {
  await using r = await rig({}, { timeoutSeconds: 1 });
  await r.send(body, { id: "b" });
  r.poll();
  await until(() => times(r.saw(), "a") > 1 && times(r.saw(), "b") > 1, { what: "both messages again" });
  expect(r.deleted()).toEqual([]);
});

test("without the response type a reported failure is deleted with the rest: lost", async () => {
  await using r = await rig({ reportsItemFailures: false });
  await r.send({ id: "a" }, { id: "bad", does: "fail" });
  r.poll();
  await until(() => r.deleted().length === 2, { what: "both deletions" });
});

test("without the response type a thrown error still fails the whole batch", async () => {
  await using r = await rig({ reportsItemFailures: false });
  await r.send({ id: "a" }, { id: "b", does: "throw" });
  r.poll();
  await until(() => times(r.saw(), "a") > 1, { what: "the batch again" });
  expect(r.deleted()).toEqual([]);
});

test("a batch is no larger than the batch size", async () => {
  await using r = await rig({ batchSize: 3 });
  await r.send(...Array.from({ length: 7 }, (_, i) => ({ id: String(i) })));
  r.poll();
  await until(() => r.deleted().length === 7, { what: "all deletions" });
  expect(
    r
      .saw()
      .map(({ saw }) => saw.length)
      .sort(),
  ).toEqual([1, 3, 3]);
});

test("a window waits for more: messages sent one by one come as one batch, also of more than ten", async () => {
  await using r = await rig({ batchSize: 12, windowSeconds: 20, concurrency: 2, visibilitySeconds: 120 });
  r.poll();
  for (let i = 0; i < 12; i += 1) await r.send({ id: String(i) });
  await until(() => r.deleted().length === 12, { what: "all deletions" });
  expect(
    r
      .saw()
      .map(({ saw }) => saw.length)
      .sort(),
  ).not.toContain(1);
});

test("a window that ends invokes with what there is", async () => {
  await using r = await rig({ batchSize: 10, windowSeconds: 1, visibilitySeconds: 30 });
  await r.send({ id: "a" });
  r.poll();
  await until(() => r.deleted().length === 1, { what: "the deletion" });
});

test("no more batches at once than the maximum concurrency, and as many as that", async () => {
  await using r = await rig({ batchSize: 1, concurrency: 2, visibilitySeconds: 30 });
  await r.send(...Array.from({ length: 6 }, (_, i) => ({ id: String(i), ms: 300 })));
  let most = 0;
  r.poll();
  await until(
    () => {
      most = Math.max(most, r.made.fn.inFlight);
      return r.deleted().length === 6;
    },
    { what: "all deletions", everyMs: 5 },
  );
  expect(most).toBe(2);
});

test("a throttled batch is tried again until it may run", async () => {
  await using r = await rig({ batchSize: 1, concurrency: 2, visibilitySeconds: 30 }, { reservedConcurrency: 1 });
  await r.send({ id: "a", ms: 600 }, { id: "b", ms: 1 });
  r.poll();
  await until(() => r.deleted().length === 2, { what: "both deletions" });
  expect(r.saw().flatMap(({ counts }) => counts)).toEqual(["1", "1"]);
});

test("a batch throttled for its whole visibility timeout is let go: it comes back without ever having run", async () => {
  await using r = await rig({ batchSize: 1, concurrency: 2, visibilitySeconds: 1 }, { reservedConcurrency: 1 });
  await r.send({ id: "slow", ms: 2500 }, { id: "b" });
  r.poll();
  await until(() => r.deleted().includes("b"), { what: "the second message in the end" });
  const b = r.saw().find(({ saw }) => saw.includes("b"))!;
  expect(Number(b.counts[0])).toBeGreaterThan(1);
});

test("a stopped function's queue is left alone, and taken up again at once after its start", async () => {
  await using r = await rig({ visibilitySeconds: 30 });
  r.poll();
  r.made.fn.stop();
  await r.send({ id: "a" });
  const receives = () => queues.log().filter((line) => line.queue === r.queue && line.op === "receive");
  await until(() => queues.log().some((line) => line.queue === r.queue && line.op === "send"), { what: "the send" });
  expect(receives()).toEqual([]);
  r.made.fn.start();
  await until(() => r.deleted().length === 1, { what: "the deletion" });
  expect(receives()).toHaveLength(1);
});
