import { afterAll, beforeAll, expect, test } from "vitest";
import { startQueues, type TestQueues } from "../../support/local-queues.ts";

let queues: TestQueues;
beforeAll(async () => {
  queues = await startQueues();
});
afterAll(() => queues[Symbol.asyncDispose]());

/** One call as an older CLI makes it: a form; answers status and XML. */
async function query(Action: string, parameters: Record<string, string>, endpoint = queues.endpoint) {
  const authorization = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/sqs/aws4_request, Signature=x";
  const body = new URLSearchParams({ Action, Version: "2012-11-05", ...parameters });
  const answer = await fetch(endpoint, { method: "POST", headers: { authorization }, body });
  return { status: answer.status, type: answer.headers.get("content-type"), xml: await answer.text() };
}

const textOf = (xml: string, name: string) => new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml)?.[1];

test("a form makes a queue, sends, receives, counts and deletes, and is answered in XML", async () => {
  const made = await query("CreateQueue", {
    QueueName: "forms",
    "Attribute.1.Name": "VisibilityTimeout",
    "Attribute.1.Value": "77",
  });
  expect(made).toMatchObject({ status: 200, type: "text/xml" });
  const QueueUrl = textOf(made.xml, "QueueUrl")!;
  expect(QueueUrl).toBe(queues.url("forms"));
  expect((await query("ListQueues", {})).xml).toContain(`<ListQueuesResult><QueueUrl>${QueueUrl}</QueueUrl>`);

  const sent = await query("SendMessage", {
    QueueUrl,
    MessageBody: "a & b <c>\r\n☃",
    "MessageAttribute.1.Name": "kind",
    "MessageAttribute.1.Value.DataType": "String",
    "MessageAttribute.1.Value.StringValue": "test",
  });
  const received = await query("ReceiveMessage", {
    QueueUrl,
    WaitTimeSeconds: "5",
    MaxNumberOfMessages: "10",
    "AttributeName.1": "All",
    "MessageAttributeName.1": "All",
  });
  expect(textOf(received.xml, "MessageId")).toBe(textOf(sent.xml, "MessageId"));
  expect(received.xml).toContain("<Body>a &amp; b &lt;c&gt;&#13;\n☃</Body>");
  expect(received.xml).toContain("<Attribute><Name>ApproximateReceiveCount</Name><Value>1</Value></Attribute>");
  expect(received.xml).toMatch(/<MessageAttribute><Name>kind<\/Name><Value>.*<StringValue>test<\/StringValue>/);

  const counts = await query("GetQueueAttributes", { QueueUrl, "AttributeName.1": "All" });
  expect(counts.xml).toContain(
    "<Attribute><Name>ApproximateNumberOfMessagesNotVisible</Name><Value>1</Value></Attribute>",
  );
  expect(counts.xml).toContain("<Attribute><Name>VisibilityTimeout</Name><Value>77</Value></Attribute>");
  const deleted = await query("DeleteMessage", { QueueUrl, ReceiptHandle: textOf(received.xml, "ReceiptHandle")! });
  expect(deleted.xml).toMatch(/<DeleteMessageResponse xmlns=".*"><DeleteMessageResult><\/DeleteMessageResult>/);
});

test("a batch of a form: each entry has its result", async () => {
  await queues.sqs.createQueue("batch", {});
  const { xml } = await query("SendMessageBatch", {
    QueueUrl: queues.url("batch"),
    "SendMessageBatchRequestEntry.1.Id": "one",
    "SendMessageBatchRequestEntry.1.MessageBody": "1",
    "SendMessageBatchRequestEntry.2.Id": "two",
    "SendMessageBatchRequestEntry.2.MessageBody": "2",
    "SendMessageBatchRequestEntry.2.DelaySeconds": "901",
  });
  expect(xml).toMatch(/<SendMessageBatchResultEntry>.*<Id>one<\/Id>.*<\/SendMessageBatchResultEntry>/);
  expect(xml).toMatch(/<BatchResultErrorEntry>.*<Id>two<\/Id>.*<\/BatchResultErrorEntry>/);
});

test("errors come in XML with the codes of that protocol, refusals of a role too", async () => {
  const ghost = await query("GetQueueUrl", { QueueName: "ghosts" });
  expect(ghost.status).toBe(400);
  expect(ghost.xml).toMatch(/<Error><Type>Sender<\/Type><Code>AWS\.SimpleQueueService\.NonExistentQueue<\/Code>/);
  await using guarded = await startQueues({
    caller: () => ({ role: "R", session: "s" }),
    check: (caller, need) => ({ caller, need, reason: "noPermission", name: undefined }),
  });
  const denied = await query("SendMessage", { QueueUrl: guarded.url("q"), MessageBody: "x" }, guarded.endpoint);
  expect(denied.status).toBe(403);
  expect(denied.xml).toMatch(/<Code>AccessDenied<\/Code><Message>.*sqs:sendmessage on resource: .*:q because/);
});
