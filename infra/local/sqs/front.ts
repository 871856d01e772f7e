/* SQS as functions and SDKs see it: the emulator, with what it lacks made up for. */

import type { AwsAnswer } from "../aws-answer.ts";
import type { JsonObject } from "../template.ts";
import { type Backend, sqsError, sqsJson, startBackend } from "./backend.ts";
import { QueueFaults } from "./faults.ts";
import { openQueueLog, type QueueLog } from "./queue-log.ts";
import { Receipts } from "./receipts.ts";
import { type ReceivedMessage, receive } from "./receive.ts";
import { sendBatch, sendOne } from "./send.ts";
import { WakeUps } from "./wake-ups.ts";

/** What the operations of one front share. */
export interface QueueParts {
  readonly backend: Backend;
  readonly faults: QueueFaults;
  readonly receipts: Receipts;
  readonly wakeUps: WakeUps;
  readonly log: QueueLog;
  /** What applies to a message or receive of a queue that says nothing else. */
  defaults(queue: string): QueueDefaults;
}

export interface QueueDefaults {
  readonly delaySeconds: number;
  readonly visibilitySeconds: number;
  readonly waitSeconds: number;
}

export interface SqsFront {
  readonly faults: QueueFaults;
  /** Makes a queue with attributes as CreateQueue takes them. */
  createQueue(name: string, attributes: Readonly<Record<string, string>>): Promise<void>;
  /** Answers one SQS call; the signal ends a long poll. */
  handle(operation: string, body: JsonObject, signal?: AbortSignal): Promise<AwsAnswer>;
  /** Receives up to ten messages; an empty list after `waitSeconds` or when the signal aborts. */
  receive(
    queue: string,
    limits: { max: number; waitSeconds: number },
    signal?: AbortSignal,
  ): Promise<ReceivedMessage[]>;
  /** Deletes received messages. */
  remove(queue: string, handles: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

type Operation = (parts: QueueParts, queue: string, body: JsonObject, signal?: AbortSignal) => Promise<AwsAnswer>;

const OPERATIONS: Readonly<Record<string, Operation>> = {
  SendMessage: (parts, queue, body) => sendOne(parts, queue, body as never),
  SendMessageBatch: sendBatch,
  ReceiveMessage: receive,
  DeleteMessage: async (parts, queue, body) => {
    const handle = String(body["ReceiptHandle"] ?? "");
    const failure = await remove(parts, queue, handle);
    return failure ? sqsError(failure.name, failure.text) : sqsJson({});
  },
  DeleteMessageBatch: (parts, queue, body) =>
    eachEntry(parts, "DeleteMessageBatch", body, ({ ReceiptHandle }) => remove(parts, queue, String(ReceiptHandle))),
  ChangeMessageVisibility: async (parts, queue, body) => {
    const failure = parts.receipts.refusal(queue, String(body["ReceiptHandle"]), Number(body["VisibilityTimeout"]));
    if (failure) return sqsError(failure.name, failure.text);
    const answer = await parts.backend.call("ChangeMessageVisibility", body);
    if (answer.status === 200) noteVisibility(parts, queue, body);
    return answer;
  },
  ChangeMessageVisibilityBatch: (parts, queue, body) =>
    eachEntry(parts, "ChangeMessageVisibilityBatch", body, async (entry) => {
      const { ReceiptHandle, VisibilityTimeout } = entry;
      const failure = parts.receipts.refusal(queue, String(ReceiptHandle), Number(VisibilityTimeout));
      if (failure) return failure;
      const call = {
        QueueUrl: body["QueueUrl"]!,
        ReceiptHandle: ReceiptHandle!,
        VisibilityTimeout: VisibilityTimeout!,
      };
      const answer = await parts.backend.call("ChangeMessageVisibility", call);
      if (answer.status !== 200) return { name: "InvalidParameterValue", text: JSON.parse(answer.body).message };
      noteVisibility(parts, queue, call);
      return undefined;
    }),
};

/** Starts the queue service. `endpoint` begins every queue URL; every message is noted in `logFile`. */
export async function startSqs(options: { endpoint(): string; logFile: string }): Promise<SqsFront> {
  const attributes = new Map<string, Readonly<Record<string, string>>>();
  const parts: QueueParts = {
    backend: await startBackend(),
    faults: new QueueFaults(),
    receipts: new Receipts(),
    wakeUps: new WakeUps(),
    log: openQueueLog(options.logFile),
    defaults: (queue) => defaultsOf(attributes.get(queue) ?? {}),
  };
  const url = (name: string) => `${options.endpoint()}/000000000000/${name}`;

  async function handle(operation: string, body: JsonObject, signal?: AbortSignal): Promise<AwsAnswer> {
    const queue = queueName(String(body["QueueUrl"] ?? ""));
    const run = Object.hasOwn(OPERATIONS, operation) ? OPERATIONS[operation] : undefined;
    // A queue that does not exist is the emulator's to report, as is everything that needs no help.
    if (run && attributes.has(queue)) return run(parts, queue, body, signal);
    const answer = await parts.backend.call(operation, body);
    if (answer.status !== 200) return answer;
    const given = (body["Attributes"] ?? {}) as Readonly<Record<string, string>>;
    if (operation === "CreateQueue") attributes.set(String(body["QueueName"]), given);
    if (operation === "SetQueueAttributes") attributes.set(queue, { ...attributes.get(queue), ...given });
    if (operation === "DeleteQueue") attributes.delete(queue);
    return withUrls(answer, url);
  }

  async function must(operation: string, body: JsonObject, signal?: AbortSignal): Promise<Record<string, unknown>> {
    const answer = await handle(operation, body, signal);
    if (answer.status !== 200) throw new Error(`${operation} failed: ${answer.body}`);
    return JSON.parse(answer.body);
  }

  return {
    faults: parts.faults,
    handle,
    createQueue: async (name, given) => void (await must("CreateQueue", { QueueName: name, Attributes: given })),
    async receive(queue, { max, waitSeconds }, signal) {
      const names = { MessageSystemAttributeNames: ["All"], MessageAttributeNames: ["All"] };
      const body = { QueueUrl: url(queue), MaxNumberOfMessages: max, WaitTimeSeconds: waitSeconds, ...names };
      return ((await must("ReceiveMessage", body, signal))["Messages"] ?? []) as ReceivedMessage[];
    },
    async remove(queue, handles) {
      for (let i = 0; i < handles.length; i += 10) {
        const Entries = handles.slice(i, i + 10).map((ReceiptHandle, n) => ({ Id: String(n), ReceiptHandle }));
        await must("DeleteMessageBatch", { QueueUrl: url(queue), Entries });
      }
    },
    async close() {
      await parts.backend.close();
      await parts.log.close();
    },
  };
}

function defaultsOf(attributes: Readonly<Record<string, string>>): QueueDefaults {
  return {
    delaySeconds: Number(attributes["DelaySeconds"] ?? 0),
    visibilitySeconds: Number(attributes["VisibilityTimeout"] ?? 30),
    waitSeconds: Number(attributes["ReceiveMessageWaitTimeSeconds"] ?? 0),
  };
}

function queueName(url: string): string {
  return url.split("/").at(-1) ?? "";
}

/** Queue URLs in an answer, led back to the one port of this stack. */
function withUrls(answer: AwsAnswer, url: (name: string) => string): AwsAnswer {
  const body = JSON.parse(answer.body);
  if (body.QueueUrl) body.QueueUrl = url(queueName(body.QueueUrl));
  if (body.QueueUrls) body.QueueUrls = body.QueueUrls.map((each: string) => url(queueName(each)));
  return sqsJson(body);
}

interface Failure {
  readonly name: string;
  readonly text: string;
}

async function remove(parts: QueueParts, queue: string, handle: string): Promise<Failure | undefined> {
  const messageId = parts.receipts.messageId(queue, handle);
  if (messageId === undefined) {
    return {
      name: "ReceiptHandleIsInvalid",
      text: `The input receipt handle "${handle}" is not a valid receipt handle.`,
    };
  }
  await parts.backend.call("DeleteMessage", { QueueUrl: `/${queue}`, ReceiptHandle: handle });
  parts.receipts.hide(handle, 0);
  parts.log.write({ queue, op: "delete", messageId });
  return undefined;
}

function noteVisibility(parts: QueueParts, queue: string, body: JsonObject): void {
  const handle = String(body["ReceiptHandle"]);
  const seconds = Number(body["VisibilityTimeout"]);
  const messageId = parts.receipts.messageId(queue, handle) ?? "";
  parts.receipts.hide(handle, seconds);
  parts.wakeUps.wakeIn(queue, seconds);
  parts.log.write({ queue, op: "visibility", messageId, seconds });
}

/** A batch: what is wrong with the call as a whole is the emulator's to say, each entry then has its own result. */
async function eachEntry(
  parts: QueueParts,
  operation: string,
  body: JsonObject,
  run: (entry: JsonObject) => Promise<Failure | undefined>,
): Promise<AwsAnswer> {
  const entries = (body["Entries"] ?? []) as readonly JsonObject[];
  const ids = new Set(entries.map(({ Id }) => Id));
  const sound = entries.length > 0 && entries.length <= 10 && ids.size === entries.length;
  if (!sound || [...ids].some((id) => !/^[\w-]{1,80}$/.test(String(id)))) return parts.backend.call(operation, body);
  const Successful: JsonObject[] = [];
  const Failed: JsonObject[] = [];
  for (const entry of entries) {
    const failure = await run(entry);
    if (!failure) Successful.push({ Id: entry["Id"]! });
    else Failed.push({ Id: entry["Id"]!, SenderFault: true, Code: failure.name, Message: failure.text });
  }
  return sqsJson({ Successful, Failed });
}
