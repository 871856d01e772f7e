/* The queue emulator, called in memory: it listens on no port. */

import { buildApp } from "fauxqs";
import type { AwsAnswer } from "../aws-answer.ts";
import { REGION } from "../resource-types.ts";

// Error codes whose query form carries this prefix; the emulator puts it on every one.
const PREFIXED = new Set([
  "BatchEntryIdsNotDistinct",
  "BatchRequestTooLong",
  "EmptyBatchRequest",
  "InvalidBatchEntryId",
  "MessageNotInflight",
  "NonExistentQueue",
  "PurgeQueueInProgress",
  "QueueDeletedRecently",
  "TooManyEntriesInBatchRequest",
  "UnsupportedOperation",
]);
const QUERY_CODES: Readonly<Record<string, string>> = {
  QueueDoesNotExist: "NonExistentQueue",
  QueueNameExists: "QueueAlreadyExists",
};

export interface Backend {
  call(operation: string, body: unknown): Promise<AwsAnswer>;
  close(): Promise<void>;
}

/** Starts the emulator. */
export async function startBackend(): Promise<Backend> {
  const app = buildApp({ logger: false, defaultRegion: REGION });
  await app.ready();
  return {
    async call(operation, body) {
      const answer = await app.inject({
        method: "POST",
        url: "/",
        headers: { "content-type": "application/x-amz-json-1.0", "x-amz-target": `AmazonSQS.${operation}` },
        payload: JSON.stringify(body),
      });
      if (answer.statusCode === 200) return sqsJson(JSON.parse(answer.body));
      const { __type: type = "InternalFailure", message = answer.body } = JSON.parse(answer.body);
      return sqsError(String(type).split("#").at(-1)!, message, answer.statusCode);
    },
    async close() {
      await app.close();
    },
  };
}

/** What SQS answers to a call that worked. */
export function sqsJson(body: unknown): AwsAnswer {
  return { status: 200, headers: { "content-type": "application/x-amz-json-1.0" }, body: JSON.stringify(body) };
}

/** An SQS error, with the header that tells SDKs its older name. */
export function sqsError(name: string, message: string, status = 400): AwsAnswer {
  const code = QUERY_CODES[name] ?? name;
  const query = PREFIXED.has(code) ? `AWS.SimpleQueueService.${code}` : code;
  return {
    status,
    headers: {
      "content-type": "application/x-amz-json-1.0",
      "x-amzn-query-error": `${query};${status < 500 ? "Sender" : "Receiver"}`,
    },
    body: JSON.stringify({ __type: `com.amazonaws.sqs#${name}`, message }),
  };
}
