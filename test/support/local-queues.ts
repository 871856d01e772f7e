import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type Message,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
  SQSClient,
} from "@aws-sdk/client-sqs";
import { awsError } from "../../infra/local/aws-answer.ts";
import { type AwsServices, awsListener } from "../../infra/local/aws-endpoint.ts";
import { listen } from "../../infra/local/http.ts";
import { type SqsFront, startSqs } from "../../infra/local/sqs/front.ts";
import type { QueueEvent } from "../../infra/local/sqs/queue-log.ts";

/** The queue service behind the one endpoint, with an SDK client, and its log. */
export interface TestQueues extends AsyncDisposable {
  readonly sqs: SqsFront;
  readonly client: SQSClient;
  readonly endpoint: string;
  url(queue: string): string;
  /** Lines of `sqs.jsonl`. */
  log(): readonly QueueEvent[];
}

const nothing = () => Promise.resolve(awsError(501, "NotHere", "Only queues in this test."));

/** Starts it; the SDK client makes one attempt a call. `services` adds or replaces what stands behind the endpoint. */
export async function startQueues(services: Partial<AwsServices> = {}): Promise<TestQueues> {
  const folder = mkdtempSync(join(tmpdir(), "millrace-queues-"));
  const file = join(folder, "sqs.jsonl");
  let endpoint = "";
  const sqs = await startSqs({ endpoint: () => endpoint, logFile: file });
  const listener = awsListener({
    dataApi: nothing,
    sqs: (operation, body, signal) => sqs.handle(operation, body, signal),
    secrets: () => awsError(501, "NotHere", "Only queues in this test."),
    invoke: nothing,
    caller: () => undefined,
    check: () => undefined,
    secretArn: (id) => id,
    ...services,
  });
  const server = await listen(listener, { port: 0, what: "the test", option: "none" });
  endpoint = server.url;
  const credentials = { accessKeyId: "test", secretAccessKey: "test" };
  const client = new SQSClient({ endpoint, region: "us-east-1", credentials, maxAttempts: 1 });
  return {
    sqs,
    client,
    endpoint,
    url: (queue) => `${endpoint}/000000000000/${queue}`,
    log: () =>
      readFileSync(file, "utf8")
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line)),
    async [Symbol.asyncDispose]() {
      client.destroy();
      await server.close();
      await sqs.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Calls on queues of a test's own. */
export function queueCalls(queues: () => TestQueues) {
  let count = 0;
  return {
    async makeQueue(attributes: Record<string, string> = {}): Promise<{ name: string; QueueUrl: string }> {
      count += 1;
      const name = `queue-${count}`;
      await queues().sqs.createQueue(name, attributes);
      return { name, QueueUrl: queues().url(name) };
    },
    send: (QueueUrl: string, MessageBody: string, DelaySeconds?: number) =>
      queues().client.send(new SendMessageCommand({ QueueUrl, MessageBody, DelaySeconds })),
    sendBatch: (QueueUrl: string, texts: readonly string[]) =>
      queues().client.send(
        new SendMessageBatchCommand({
          QueueUrl,
          Entries: texts.map((MessageBody, i) => ({ Id: `e${i}`, MessageBody })),
        }),
      ),
    async receive(QueueUrl: string, WaitTimeSeconds = 0, more: object = {}): Promise<Message[]> {
      const command = new ReceiveMessageCommand({
        QueueUrl,
        WaitTimeSeconds,
        MaxNumberOfMessages: 10,
        MessageSystemAttributeNames: ["All"],
        ...more,
      });
      return (await queues().client.send(command)).Messages ?? [];
    },
  };
}

export const bodies = (messages: readonly Message[]) => messages.map(({ Body }) => Body);
