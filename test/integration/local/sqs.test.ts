import {
  ChangeMessageVisibilityBatchCommand,
  ChangeMessageVisibilityCommand,
  CreateQueueCommand,
  DeleteMessageBatchCommand,
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  GetQueueUrlCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
} from "@aws-sdk/client-sqs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { bodies, queueCalls, startQueues, type TestQueues } from "../../support/local-queues.ts";
import { until } from "../../support/until.ts";

let queues: TestQueues;
beforeAll(async () => {
  queues = await startQueues();
});
afterAll(() => queues[Symbol.asyncDispose]());

const { makeQueue, send, sendBatch, receive } = queueCalls(() => queues);
const errorNamed = (name: string) => expect.objectContaining({ name });

test("queue URLs lead back to the one port", async () => {
  const { name, QueueUrl } = await makeQueue();
  expect(await queues.client.send(new GetQueueUrlCommand({ QueueName: name }))).toMatchObject({ QueueUrl });
  const made = await queues.client.send(new CreateQueueCommand({ QueueName: "made-by-sdk" }));
  expect(made.QueueUrl).toBe(`${queues.endpoint}/000000000000/made-by-sdk`);
});

test("a message goes through, with its receive count, and is gone after its deletion", async () => {
  const { name, QueueUrl } = await makeQueue();
  const { MessageId } = await send(QueueUrl, "hello");
  const [message] = await receive(QueueUrl);
  expect(message).toMatchObject({ MessageId, Body: "hello", Attributes: { ApproximateReceiveCount: "1" } });
  await queues.client.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: message!.ReceiptHandle }));
  const { Attributes } = await queues.client.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ["All"] }));
  expect(Attributes).toMatchObject({ ApproximateNumberOfMessages: "0", ApproximateNumberOfMessagesNotVisible: "0" });
  const lines = await until(
    () => {
      const found = queues.log().filter(({ queue }) => queue === name);
      return found.length === 3 && found;
    },
    { what: "the log's three lines" },
  );
  expect(lines).toMatchObject([
    { op: "send", messageId: MessageId, body: "hello" },
    { op: "receive", messageId: MessageId, count: 1 },
    { op: "delete", messageId: MessageId },
  ]);
});

test("system attributes come only when asked for", async () => {
  const { QueueUrl } = await makeQueue();
  await sendBatch(QueueUrl, ["a", "b", "c"]);
  const one = { MaxNumberOfMessages: 1 };
  expect((await receive(QueueUrl, 0, { ...one, MessageSystemAttributeNames: [] }))[0]!.Attributes).toBeUndefined();
  const names = { MessageSystemAttributeNames: ["SentTimestamp"] };
  expect(Object.keys((await receive(QueueUrl, 0, { ...one, ...names }))[0]!.Attributes!)).toEqual(["SentTimestamp"]);
  expect(Object.keys((await receive(QueueUrl, 0, one))[0]!.Attributes!)).toContain("ApproximateReceiveCount");
});

test("a long poll ends with the first message", async () => {
  const { QueueUrl } = await makeQueue();
  const polling = receive(QueueUrl, 20);
  await send(QueueUrl, "late");
  expect(bodies(await polling)).toEqual(["late"]);
});

test("a long poll whose caller went away takes no message", async () => {
  const { QueueUrl } = await makeQueue();
  const gone = new AbortController();
  const polling = queues.client.send(new ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 20 }), {
    abortSignal: gone.signal,
  });
  await expect(Promise.race([polling, receive(QueueUrl)])).resolves.toEqual([]);
  gone.abort();
  await expect(polling).rejects.toThrow();
  await until(
    async () => {
      await send(QueueUrl, "kept");
      return bodies(await receive(QueueUrl)).includes("kept");
    },
    { what: "a message that is not lost to the dead caller" },
  );
});

test("a delay holds a message back, and a long poll waits for it", async () => {
  const { QueueUrl } = await makeQueue();
  const sentAt = Date.now();
  await send(QueueUrl, "in a second", 1);
  expect(await receive(QueueUrl)).toEqual([]);
  expect(bodies(await receive(QueueUrl, 5))).toEqual(["in a second"]);
  expect(Date.now() - sentAt).toBeGreaterThanOrEqual(1000);
});

test("a queue's own delay holds for messages without one", async () => {
  const { QueueUrl } = await makeQueue({ DelaySeconds: "900" });
  await send(QueueUrl, "later");
  await send(QueueUrl, "now", 0);
  expect(bodies(await receive(QueueUrl))).toEqual(["now"]);
});

test("a delay above 900 s is refused: the call, or the entry of a batch", async () => {
  const { QueueUrl } = await makeQueue();
  await expect(send(QueueUrl, "x", 901)).rejects.toThrow(errorNamed("InvalidParameterValue"));
  const Entries = [
    { Id: "good", MessageBody: "a", DelaySeconds: 900 },
    { Id: "bad", MessageBody: "b", DelaySeconds: 901 },
  ];
  const answer = await queues.client.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
  expect(answer.Successful?.map(({ Id }) => Id)).toEqual(["good"]);
  expect(answer.Failed).toMatchObject([{ Id: "bad", SenderFault: true, Code: "InvalidParameterValue" }]);
});

test("a batch with a body that is not allowed fails in part", async () => {
  const { QueueUrl } = await makeQueue();
  const answer = await sendBatch(QueueUrl, ["fine", "bad \u0001"]);
  expect(answer.Successful).toHaveLength(1);
  expect(answer.Failed).toMatchObject([{ Id: "e1", SenderFault: true, Code: "InvalidMessageContents" }]);
});

test.each([
  ["an empty batch", [], "EmptyBatchRequest"],
  [
    "eleven entries",
    Array.from({ length: 11 }, (_, i) => ({ Id: `e${i}`, MessageBody: "x" })),
    "TooManyEntriesInBatchRequest",
  ],
  [
    "the same id twice",
    [
      { Id: "a", MessageBody: "x" },
      { Id: "a", MessageBody: "y" },
    ],
    "BatchEntryIdsNotDistinct",
  ],
  ["an id with a space", [{ Id: "a b", MessageBody: "x" }], "InvalidBatchEntryId"],
])("%s is refused as a whole", async (_, Entries, name) => {
  const { QueueUrl } = await makeQueue();
  const command = new SendMessageBatchCommand({ QueueUrl, Entries });
  await expect(queues.client.send(command)).rejects.toThrow(errorNamed(name));
});

test("errors have the names and codes that AWS gives them", async () => {
  const missing = queues.url("nowhere");
  const gone = await send(missing, "x").catch((error) => error);
  expect(gone).toMatchObject({ name: "QueueDoesNotExist", Code: "AWS.SimpleQueueService.NonExistentQueue" });
  await queues.client.send(new CreateQueueCommand({ QueueName: "twice", Attributes: { VisibilityTimeout: "10" } }));
  const again = new CreateQueueCommand({ QueueName: "twice", Attributes: { VisibilityTimeout: "20" } });
  expect(await queues.client.send(again).catch((error) => error)).toMatchObject({
    name: "QueueNameExists",
    Code: "QueueAlreadyExists",
  });
});

test("a bogus receipt handle is refused, alone and in batches", async () => {
  const { QueueUrl } = await makeQueue();
  const ReceiptHandle = "bogus";
  const invalid = errorNamed("ReceiptHandleIsInvalid");
  await expect(queues.client.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }))).rejects.toThrow(invalid);
  const change = new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout: 1 });
  await expect(queues.client.send(change)).rejects.toThrow(invalid);
  const Entries = [{ Id: "a", ReceiptHandle, VisibilityTimeout: 1 }];
  const failed = { Failed: [{ Id: "a", SenderFault: true, Code: "ReceiptHandleIsInvalid" }] };
  expect(await queues.client.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }))).toMatchObject(failed);
  expect(await queues.client.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl, Entries }))).toMatchObject(
    failed,
  );
});

test("visibility 0 gives a message back at once; its old handle is then not in flight", async () => {
  const { QueueUrl } = await makeQueue();
  await send(QueueUrl, "x");
  const [first] = await receive(QueueUrl);
  const giveBack = { QueueUrl, ReceiptHandle: first!.ReceiptHandle };
  await queues.client.send(new ChangeMessageVisibilityCommand({ ...giveBack, VisibilityTimeout: 0 }));
  const [second] = await receive(QueueUrl);
  expect(second).toMatchObject({ MessageId: first!.MessageId, Attributes: { ApproximateReceiveCount: "2" } });
  expect(second!.ReceiptHandle).not.toBe(first!.ReceiptHandle);
  const late = new ChangeMessageVisibilityCommand({ ...giveBack, VisibilityTimeout: 5 });
  await expect(queues.client.send(late)).rejects.toThrow(errorNamed("MessageNotInflight"));
  // As on AWS, a deletion with the outdated handle succeeds and leaves the message.
  await queues.client.send(new DeleteMessageCommand(giveBack));
  await queues.client.send(
    new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle: second!.ReceiptHandle, VisibilityTimeout: 0 }),
  );
  expect(await receive(QueueUrl)).toHaveLength(1);
});

test("a message comes back when its visibility timeout has passed, and then counts as not in flight", async () => {
  const { QueueUrl } = await makeQueue({ VisibilityTimeout: "1" });
  await send(QueueUrl, "x");
  const [first] = await receive(QueueUrl);
  expect(await receive(QueueUrl)).toEqual([]);
  expect(await receive(QueueUrl, 5)).toMatchObject([{ Attributes: { ApproximateReceiveCount: "2" } }]);
  const { ReceiptHandle } = first!;
  const late = new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout: 5 });
  await expect(queues.client.send(late)).rejects.toThrow(errorNamed("MessageNotInflight"));
});

test.each([43_200, 43_201])(
  "a visibility of %i s, more than a receive has left, is refused",
  async (VisibilityTimeout) => {
    const { QueueUrl } = await makeQueue();
    await send(QueueUrl, "x");
    const [{ ReceiptHandle }] = (await receive(QueueUrl)) as [Message];
    await until(() => Date.now() % 10 === 0, { what: "a little time to pass", everyMs: 1 });
    const change = new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout });
    await expect(queues.client.send(change)).rejects.toThrow(errorNamed("InvalidParameterValue"));
  },
);

test("a message received more often than allowed goes to the dead-letter queue", async () => {
  const dead = await makeQueue();
  const deadLetterTargetArn = `arn:aws:sqs:us-east-1:000000000000:${dead.name}`;
  const RedrivePolicy = JSON.stringify({ deadLetterTargetArn, maxReceiveCount: 1 });
  const { QueueUrl } = await makeQueue({ RedrivePolicy });
  await send(QueueUrl, "poison");
  const [{ ReceiptHandle }] = (await receive(QueueUrl)) as [Message];
  await queues.client.send(new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout: 0 }));
  expect(await receive(QueueUrl)).toEqual([]);
  expect(bodies(await receive(dead.QueueUrl))).toEqual(["poison"]);
});

test("a service that is not there is named; an unsigned call is told to sign", async () => {
  const call = (headers: Record<string, string>) => fetch(queues.endpoint, { method: "POST", headers, body: "{}" });
  const authorization = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, Signature=x";
  const unknown = await call({ authorization });
  expect(unknown.status).toBe(501);
  expect(await unknown.json()).toMatchObject({
    __type: "UnknownService",
    message: expect.stringContaining("dynamodb"),
  });
  const unsigned = await call({});
  expect(unsigned.status).toBe(403);
  expect(await unsigned.json()).toMatchObject({ __type: "MissingAuthenticationToken" });
});

test("a call that the caller's role does not allow is refused in AWS's words, before anything happens", async () => {
  await using guarded = await startQueues({
    caller: (key) => (key === "test" ? { role: "WorkerRole", session: "worker" } : undefined),
    check: (caller, need) =>
      need.action === "sqs:SendMessage" ? undefined : { caller, need, reason: "noPermission", name: undefined },
  });
  await guarded.sqs.createQueue("volumes", {});
  const QueueUrl = guarded.url("volumes");
  const Entries = [{ Id: "a", MessageBody: "x" }];
  await guarded.client.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
  await expect(guarded.client.send(new ReceiveMessageCommand({ QueueUrl }))).rejects.toMatchObject({
    name: "AccessDenied",
    message:
      "User: arn:aws:sts::000000000000:assumed-role/WorkerRole/worker is not authorized to perform: sqs:receivemessage on resource: arn:aws:sqs:us-east-1:000000000000:volumes because no identity-based policy allows the sqs:receivemessage action",
  });
});
