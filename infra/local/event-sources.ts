/* Event source mappings: queues polled, functions invoked with what came, messages deleted after success. */

import { setTimeout as wait } from "node:timers/promises";
import { failedMessages } from "./batch-answer.ts";
import type { PolledQueue } from "./iam/queue-as-role.ts";
import type { InvokeResult, LambdaFunction } from "./lambda/lambda-function.ts";
import { REGION } from "./resource-types.ts";
import type { ReceivedMessage } from "./sqs/receive.ts";

/** A mapping, its values resolved. */
export interface EventSourceSpec {
  readonly queue: string;
  readonly queueArn: string;
  readonly batchSize: number;
  readonly windowSeconds: number;
  /** Batches in process at once. */
  readonly concurrency: number;
  readonly reportsItemFailures: boolean;
  /** Of the queue: how long a throttled batch is tried before it is let go. */
  readonly visibilitySeconds: number;
}

/** Concurrency of a mapping that sets none: where AWS starts. */
export const DEFAULT_CONCURRENCY = 5;

const LONG_POLL_SECONDS = 20;
const MOST_A_RECEIVE = 10;
const PAYLOAD_LIMIT_BYTES = 6 * 1024 * 1024;
const THROTTLED_WAIT_MS = 200;

export interface EventSource {
  /** Stops polling; resolves when the batches in process have come to an end. */
  close(): Promise<void>;
}

/** Starts the pollers of one mapping. They rest while the function is stopped. */
export function startEventSource(spec: EventSourceSpec, fn: LambdaFunction, sqs: PolledQueue): EventSource {
  const closing = new AbortController();
  let polling = new AbortController();
  fn.onState((state) => {
    if (state === "stopped") polling.abort();
    else if (polling.signal.aborted) polling = new AbortController();
  });
  const loop = async () => {
    while (!closing.signal.aborted) {
      await fn.whenRunning(closing.signal);
      const signal = AbortSignal.any([closing.signal, polling.signal]);
      const batch = await collect(spec, sqs, signal);
      if (batch.length > 0) await runBatch(spec, fn, sqs, batch, closing.signal);
    }
  };
  const loops = Array.from({ length: spec.concurrency }, loop);
  return {
    async close() {
      closing.abort();
      await Promise.all(loops);
    },
  };
}

/** A batch: full, or what came until the window closed, or as much as a payload takes. */
async function collect(spec: EventSourceSpec, sqs: PolledQueue, signal: AbortSignal): Promise<ReceivedMessage[]> {
  const room = (taken: number) => Math.min(MOST_A_RECEIVE, spec.batchSize - taken);
  const batch = await sqs.receive(spec.queue, { max: room(0), waitSeconds: LONG_POLL_SECONDS }, signal);
  const closes = Date.now() + spec.windowSeconds * 1000;
  while (batch.length > 0 && batch.length < spec.batchSize && bytes(batch) < PAYLOAD_LIMIT_BYTES) {
    const left = (closes - Date.now()) / 1000;
    if (left <= 0 || signal.aborted) break;
    const limits = { max: room(batch.length), waitSeconds: Math.min(left, LONG_POLL_SECONDS) };
    batch.push(...(await sqs.receive(spec.queue, limits, signal)));
  }
  return batch;
}

async function runBatch(
  spec: EventSourceSpec,
  fn: LambdaFunction,
  sqs: PolledQueue,
  batch: readonly ReceivedMessage[],
  closing: AbortSignal,
): Promise<void> {
  const event = JSON.stringify({ Records: batch.map((message) => recordOf(message, spec.queueArn)) });
  const hiddenUntil = Date.now() + spec.visibilitySeconds * 1000;
  let result: InvokeResult = await fn.invoke(event);
  while (result === "throttled" && Date.now() < hiddenUntil && !closing.aborted) {
    await wait(THROTTLED_WAIT_MS);
    result = await fn.invoke(event);
  }
  // Let go: the messages come back with a higher count, without ever having run.
  if (result === "throttled") return;
  const ids = batch.map(({ MessageId }) => MessageId);
  const failed = new Set(failedMessages(ids, result, spec.reportsItemFailures));
  const done = batch.filter(({ MessageId }) => !failed.has(MessageId));
  if (done.length > 0)
    await sqs.remove(
      spec.queue,
      done.map(({ ReceiptHandle }) => ReceiptHandle),
    );
}

/** A message as a handler sees it. */
function recordOf(message: ReceivedMessage, queueArn: string): Record<string, unknown> {
  const attributes = Object.entries(message.MessageAttributes ?? {}).map(([name, value]) => [
    name,
    {
      ...(value.StringValue === undefined ? {} : { stringValue: value.StringValue }),
      ...(value.BinaryValue === undefined ? {} : { binaryValue: value.BinaryValue }),
      stringListValues: [],
      binaryListValues: [],
      dataType: value.DataType,
    },
  ]);
  return {
    messageId: message.MessageId,
    receiptHandle: message.ReceiptHandle,
    body: message.Body,
    attributes: message.Attributes ?? {},
    messageAttributes: Object.fromEntries(attributes),
    md5OfBody: message.MD5OfBody,
    eventSource: "aws:sqs",
    eventSourceARN: queueArn,
    awsRegion: REGION,
  };
}

function bytes(batch: readonly ReceivedMessage[]): number {
  return batch.reduce((sum, { Body }) => sum + Buffer.byteLength(Body), 0);
}
