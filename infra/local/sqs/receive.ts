/* Receiving, with long polls that end when their caller goes away: a message is never handed to nobody. */

import type { AwsAnswer } from "../aws-answer.ts";
import { sqsError, sqsJson } from "./backend.ts";
import type { QueueParts } from "./front.ts";

/** A received message, as SQS writes it. */
export interface ReceivedMessage {
  readonly MessageId: string;
  readonly ReceiptHandle: string;
  readonly Body: string;
  readonly MD5OfBody: string;
  readonly Attributes?: Readonly<Record<string, string>>;
  readonly MessageAttributes?: Readonly<
    Record<string, { readonly DataType: string; readonly StringValue?: string; readonly BinaryValue?: string }>
  >;
}

// A receiver looks again this often without a wake-up: a dead-letter queue is filled without any send.
const LOOK_AGAIN_MS = 2000;

/** ReceiveMessage. */
export async function receive(
  parts: QueueParts,
  queue: string,
  body: Record<string, unknown>,
  signal?: AbortSignal,
): Promise<AwsAnswer> {
  const defaults = parts.defaults(queue);
  const waitSeconds = Number(body["WaitTimeSeconds"] ?? defaults.waitSeconds);
  if (!(waitSeconds >= 0 && waitSeconds <= 20)) {
    const range = "Must be >= 0 and <= 20, if provided.";
    const text = `Value ${waitSeconds} for parameter WaitTimeSeconds is invalid. Reason: ${range}`;
    return sqsError("InvalidParameterValue", text);
  }
  const deadline = Date.now() + waitSeconds * 1000;
  const call = { ...body, WaitTimeSeconds: 0, MessageSystemAttributeNames: ["All"], AttributeNames: [] };
  for (;;) {
    if (signal?.aborted) return sqsJson({});
    const answer = await parts.backend.call("ReceiveMessage", call);
    if (answer.status !== 200) return answer;
    const { Messages = [] } = JSON.parse(answer.body) as { Messages?: ReceivedMessage[] };
    if (Messages.length > 0) {
      const visibility = Number(body["VisibilityTimeout"] ?? defaults.visibilitySeconds);
      for (const message of Messages) note(parts, queue, message, visibility);
      parts.wakeUps.wakeIn(queue, visibility);
      return sqsJson({ Messages: Messages.map((message) => onlyAsked(message, body)) });
    }
    const left = deadline - Date.now();
    if (left <= 0) return answer;
    await parts.wakeUps.wait(queue, Math.min(left, LOOK_AGAIN_MS), signal);
  }
}

function note(parts: QueueParts, queue: string, message: ReceivedMessage, visibility: number): void {
  const { MessageId: messageId, ReceiptHandle, Body: body, Attributes } = message;
  parts.receipts.add(ReceiptHandle, queue, messageId, visibility);
  const count = Number(Attributes?.["ApproximateReceiveCount"] ?? 1);
  parts.log.write({ queue, op: "receive", messageId, count, body });
}

/** System attributes come only when they are asked for, by either name of the parameter. */
function onlyAsked(message: ReceivedMessage, body: Record<string, unknown>): ReceivedMessage {
  const asked = [body["MessageSystemAttributeNames"], body["AttributeNames"]].flatMap((names) => names ?? []);
  if (asked.includes("All")) return message;
  const { Attributes = {}, ...rest } = message;
  const kept = Object.entries(Attributes).filter(([name]) => asked.includes(name));
  return kept.length > 0 ? { ...rest, Attributes: Object.fromEntries(kept) } : rest;
}
