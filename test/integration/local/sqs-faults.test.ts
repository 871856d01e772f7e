import { afterAll, beforeAll, expect, test } from "vitest";
import { bodies, queueCalls, startQueues, type TestQueues } from "../../support/local-queues.ts";
import { until } from "../../support/until.ts";

let queues: TestQueues;
beforeAll(async () => {
  queues = await startQueues();
});
afterAll(() => queues[Symbol.asyncDispose]());

const { makeQueue, send, sendBatch, receive } = queueCalls(() => queues);

test("drop: the send succeeds, nothing arrives; the fault is spent after its count", async () => {
  const { name, QueueUrl } = await makeQueue();
  queues.sqs.faults.add(name, { kind: "drop", count: 2 });
  expect((await send(QueueUrl, "one")).MessageId).toMatch(/^[0-9a-f-]{36}$/);
  const answer = await sendBatch(QueueUrl, ["two", "three"]);
  expect(answer.Successful).toHaveLength(2);
  expect(answer.Failed ?? []).toEqual([]);
  expect(bodies(await receive(QueueUrl))).toEqual(["three"]);
  expect(queues.sqs.faults.list(name)).toEqual([]);
});

test("duplicate: one send, two messages", async () => {
  const { name, QueueUrl } = await makeQueue();
  queues.sqs.faults.add(name, { kind: "duplicate", count: 1 });
  await sendBatch(QueueUrl, ["twice", "once"]);
  expect(bodies(await receive(QueueUrl)).sort()).toEqual(["once", "twice", "twice"]);
});

test("delay: the message comes later, also beyond what a sender may ask for", async () => {
  const { name, QueueUrl } = await makeQueue();
  queues.sqs.faults.add(name, { kind: "delay", count: 1, seconds: 0.3 });
  queues.sqs.faults.add(name, { kind: "delay", count: 1, seconds: 1000 });
  await sendBatch(QueueUrl, ["soon", "much later", "now"]);
  expect(bodies(await receive(QueueUrl))).toEqual(["now"]);
  expect(bodies(await receive(QueueUrl, 5))).toEqual(["soon"]);
  expect(await receive(QueueUrl)).toEqual([]);
});

test("refuse: a batch fails in part without the sender's fault, a single send with an error of the service", async () => {
  const { name, QueueUrl } = await makeQueue();
  queues.sqs.faults.add(name, { kind: "refuse", count: 2 });
  const answer = await sendBatch(QueueUrl, ["no", "no", "yes"]);
  expect(answer.Successful?.map(({ Id }) => Id)).toEqual(["e2"]);
  expect(answer.Failed).toMatchObject([
    { Id: "e0", SenderFault: false, Code: "InternalError" },
    { Id: "e1", SenderFault: false },
  ]);
  queues.sqs.faults.add(name, { kind: "refuse", count: 1 });
  await expect(send(QueueUrl, "no")).rejects.toMatchObject({ $fault: "server", $metadata: { httpStatusCode: 500 } });
  expect(bodies(await receive(QueueUrl))).toEqual(["yes"]);
});

test("reorder: messages overtake each other, none is lost", async () => {
  const { name, QueueUrl } = await makeQueue();
  const sent = Array.from({ length: 10 }, (_, i) => `m${i}`);
  queues.sqs.faults.add(name, { kind: "reorder", count: 10, seconds: 0.5 });
  await sendBatch(QueueUrl, sent);
  const received: (string | undefined)[] = [];
  await until(
    async () => {
      received.push(...bodies(await receive(QueueUrl, 1, { MaxNumberOfMessages: 1 })));
      return received.length === 10;
    },
    { what: "all ten messages" },
  );
  expect(received).not.toEqual(sent);
  expect([...received].sort()).toEqual(sent);
});
