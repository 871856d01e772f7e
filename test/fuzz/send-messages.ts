/* Sends the random messages, all queues by turns, ten in a call; as JSON on the wire, which no SDK corrects. */

import type fc from "fast-check";
import { type Random, seededRandom } from "../stress/random.ts";
import { hintLike, itemLike } from "./messages.ts";
import { type SendParts, seedOf, TURN } from "./send-requests.ts";
import { sample } from "./values.ts";
import { openWire, type Wire } from "./wire.ts";

/** Amazon SQS: most messages of a batch. */
const BATCH = 10;
const CONNECTIONS = 2;
/** Targets of messages have numbers beyond those of routes, for seeds of their own. */
const FIRST_TARGET = 1_000;
const SIGNED = "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=00";

interface BatchAnswer {
  readonly Successful?: readonly unknown[];
  readonly Failed?: readonly { readonly Code: string }[];
  readonly __type?: string;
}

/** The queue's name in the report. */
export const queueTarget = (queue: string): string => `queue ${queue}`;

/** Sends `count` to each queue; resolves when the service has all of them. */
export async function sendMessages(parts: SendParts): Promise<void> {
  const { stack, seed, count, signal } = parts;
  const wire = openWire(stack.local.awsEndpoint, CONNECTIONS);
  const random = seededRandom(seed + 1);
  const queues = Object.entries(stack.local.queues);
  try {
    for (let done = 0; done < count && !signal.aborted; done += TURN)
      for (const [n, [queue, { url }]] of queues.entries()) {
        const of: fc.Arbitrary<string> = queue === "hints" ? hintLike : itemLike;
        const bodies = sample(of, Math.min(TURN, count - done), seedOf(seed, FIRST_TARGET + n, done));
        const batches = Array.from({ length: Math.ceil(bodies.length / BATCH) }, (_, b) =>
          bodies.slice(b * BATCH, (b + 1) * BATCH),
        );
        await Promise.all(batches.map((batch) => sendBatch(parts, wire, queue, url, batch, random)));
      }
  } finally {
    wire.close();
  }
}

async function sendBatch(
  parts: SendParts,
  wire: Wire,
  queue: string,
  url: string,
  bodies: readonly string[],
  random: Random,
): Promise<void> {
  const { known, outcomes } = parts;
  const target = outcomes.target(queueTarget(queue));
  const Entries = bodies.map((body, n) => ({ Id: String(n), MessageBody: known.fill(body, random) }));
  const { status, text } = await wire.send({
    method: "POST",
    path: "/",
    headers: {
      "content-type": "application/x-amz-json-1.0",
      "x-amz-target": "AmazonSQS.SendMessageBatch",
      authorization: SIGNED,
    },
    body: JSON.stringify({ QueueUrl: url, Entries }),
  });
  const answer: BatchAnswer = status === 0 ? {} : JSON.parse(text);
  if (status === 400 && bodies.length > 1) {
    // the service refuses a whole batch for one of them
    for (const body of bodies) await sendBatch(parts, wire, queue, url, [body], random);
    return;
  }
  target.sent += bodies.length;
  if (status === 400) target.refused.add(`(SQS) ${answer.__type?.split("#").at(-1)}`);
  else if (status !== 200) outcomes.wrong.push(`${target.name}: ${status} ${text.slice(0, 300)}`);
  target.accepted += answer.Successful?.length ?? 0;
  for (const { Code } of answer.Failed ?? []) target.refused.add(`(SQS) ${Code}`);
}
