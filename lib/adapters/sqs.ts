import {
  type BatchResultErrorEntry,
  SendMessageBatchCommand,
  type SendMessageBatchRequestEntry,
  type SQSClient,
} from "@aws-sdk/client-sqs";
import type { Events } from "../engine/events.ts";
import { itemBody } from "../engine/item.ts";
import type { Clock, HintQueue, ItemQueue, SendOutcome } from "../engine/ports.ts";
import { MillraceError } from "../errors.ts";

/** Amazon SQS: entries of a batch call. */
const MOST_ENTRIES = 10;
/** Tries for an entry that the service failed through no fault of ours. */
const TRIES = 3;
/** A send that hangs must not hold locks back until they expire. */
const ANSWER_MS = 10_000;

interface Entry {
  readonly body: string;
  readonly delaySeconds?: number;
}

/**
 * `SendMessageBatch` answers 200 with failures inside, which no SDK repeats: entries failed by the service are sent
 * again, those failed by us are refused. A call without an answer may have been carried out: its entries count as
 * accepted, and if they were not, the heartbeater sends them again.
 * https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html
 */
async function sendBatch(
  client: SQSClient,
  url: string,
  entries: readonly Entry[],
  clock: Clock,
): Promise<SendOutcome[]> {
  const outcomes = new Array<SendOutcome>(entries.length).fill("refused");
  let open = entries.map((_, n) => n);
  for (let attempt = 1; open.length > 0 && attempt <= TRIES; attempt++) {
    if (attempt > 1) await clock.wait(50 * 2 ** attempt);
    let failed: readonly BatchResultErrorEntry[];
    try {
      failed = await send(
        client,
        url,
        open.map((n) => toRequest(entries[n]!, n)),
      );
    } catch (cause) {
      if (isRefusal(cause)) return outcomes;
      if (wasNeverSent(cause)) continue;
      for (const n of open) outcomes[n] = "accepted";
      return outcomes;
    }
    const again = new Set(failed.filter((f) => !f.SenderFault).map((f) => Number(f.Id)));
    const refused = new Set(failed.filter((f) => f.SenderFault).map((f) => Number(f.Id)));
    for (const n of open) if (!again.has(n) && !refused.has(n)) outcomes[n] = "accepted";
    open = open.filter((n) => again.has(n));
  }
  return outcomes;
}

async function send(
  client: SQSClient,
  url: string,
  entries: SendMessageBatchRequestEntry[],
): Promise<readonly BatchResultErrorEntry[]> {
  const command = new SendMessageBatchCommand({ QueueUrl: url, Entries: entries });
  const answer = await client.send(command, { abortSignal: AbortSignal.timeout(ANSWER_MS) });
  return answer.Failed ?? [];
}

const toRequest = ({ body, delaySeconds }: Entry, n: number): SendMessageBatchRequestEntry => ({
  Id: String(n),
  MessageBody: body,
  ...(delaySeconds === undefined || delaySeconds === 0 ? {} : { DelaySeconds: delaySeconds }),
});

const statusOf = (cause: unknown): number | undefined =>
  (cause as { $metadata?: { httpStatusCode?: number } }).$metadata?.httpStatusCode;

/** The queue said no: nothing was sent. */
function isRefusal(cause: unknown): boolean {
  const status = statusOf(cause);
  return status !== undefined && status >= 400 && status < 500;
}

function wasNeverSent(cause: unknown): boolean {
  if (/did not establish a connection/i.test(String(cause))) return true;
  return ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN"].includes((cause as { code?: string }).code ?? "");
}

function chunks<T>(values: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(values.length / MOST_ENTRIES) }, (_, n) =>
    values.slice(n * MOST_ENTRIES, (n + 1) * MOST_ENTRIES),
  );
}

/** Item queues over SQS: one for each pipeline, by name. */
export function sqsItemQueue(client: SQSClient, urls: Readonly<Record<string, string>>, clock: Clock): ItemQueue {
  return {
    async send(items) {
      const outcomes: SendOutcome[] = new Array<SendOutcome>(items.length).fill("refused");
      const byUrl = Map.groupBy(items.keys(), (n) => urlOf(urls, items[n]!.pipeline));
      for (const [url, indexes] of byUrl)
        for (const some of chunks(indexes)) {
          const sent = await sendBatch(
            client,
            url,
            some.map((n) => ({ body: itemBody(items[n]!) })),
            clock,
          );
          some.forEach((n, k) => {
            outcomes[n] = sent[k] ?? "refused";
          });
        }
      return outcomes;
    },
  };
}

function urlOf(urls: Readonly<Record<string, string>>, pipeline: string): string {
  const url = urls[pipeline];
  if (url === undefined)
    throw new MillraceError("ENVIRONMENT", { variable: "ITEM_QUEUE_URLS", problem: `without a queue for ${pipeline}` });
  return url;
}

/** The hint queue over SQS. */
export function sqsHintQueue(client: SQSClient, url: string, clock: Clock, events: Events): HintQueue {
  return {
    async send(hints) {
      for (const some of chunks(hints)) {
        const outcomes = await sendBatch(client, url, some, clock).catch((): SendOutcome[] =>
          some.map(() => "refused"),
        );
        const refused = outcomes.filter((o) => o === "refused").length;
        if (refused > 0) events.emit("hint.failed", { error: `${refused} hints were refused` });
      }
    },
  };
}
