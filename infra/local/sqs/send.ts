/* Sending, with the limits that the emulator does not know and with what is to go wrong. */

import { createHash, randomUUID } from "node:crypto";
import type { AwsAnswer } from "../aws-answer.ts";
import { sqsError, sqsJson } from "./backend.ts";
import type { QueueFault } from "./faults.ts";
import type { QueueParts } from "./front.ts";

const LONGEST_DELAY_SECONDS = 900;

interface Entry {
  readonly Id: string;
  readonly MessageBody: string;
  readonly DelaySeconds?: number;
}
interface Sent {
  readonly Id: string;
  readonly MessageId: string;
}
interface Failed {
  readonly Id: string;
  readonly SenderFault: boolean;
  readonly Code: string;
  readonly Message: string;
}

/** SendMessage. */
export async function sendOne(parts: QueueParts, queue: string, body: Entry): Promise<AwsAnswer> {
  const wrong = delayProblem(body.DelaySeconds);
  if (wrong) return sqsError("InvalidParameterValue", wrong);
  const fault = parts.faults.take(queue);
  if (fault?.kind === "refuse") {
    parts.log.write({ queue, op: "refuse", fault: "refuse", body: body.MessageBody });
    return sqsError("InternalFailure", "Refused by a fault of the local stack.", 500);
  }
  if (fault?.kind === "drop") return sqsJson(dropped(parts, queue, body));
  const DelaySeconds = heldSeconds(parts, queue, body, fault);
  const answer = await parts.backend.call("SendMessage", { ...body, DelaySeconds });
  if (answer.status !== 200) return answer;
  noteSent(parts, queue, { ...body, DelaySeconds }, JSON.parse(answer.body).MessageId, fault);
  if (fault?.kind === "duplicate") await sendCopy(parts, queue, body, fault);
  return answer;
}

/** SendMessageBatch: each entry has a fate of its own. */
export async function sendBatch(parts: QueueParts, queue: string, body: Record<string, unknown>): Promise<AwsAnswer> {
  const entries = (body["Entries"] ?? []) as readonly Entry[];
  const sound =
    entries.length > 0 && entries.length <= 10 && new Set(entries.map(({ Id }) => Id)).size === entries.length;
  if (!sound) return parts.backend.call("SendMessageBatch", body);

  const failed: Failed[] = [];
  const sent: Sent[] = [];
  const kept: { entry: Entry; fault: QueueFault | undefined }[] = [];
  for (const entry of entries) {
    const wrong = delayProblem(entry.DelaySeconds);
    const fault = wrong ? undefined : parts.faults.take(queue);
    if (wrong) failed.push({ Id: entry.Id, SenderFault: true, Code: "InvalidParameterValue", Message: wrong });
    else if (fault?.kind === "refuse") failed.push(refused(parts, queue, entry));
    else if (fault?.kind === "drop") sent.push({ Id: entry.Id, ...dropped(parts, queue, entry) });
    else kept.push({ entry: { ...entry, DelaySeconds: heldSeconds(parts, queue, entry, fault) }, fault });
  }
  if (kept.length > 0) {
    const Entries = kept.map(({ entry }) => entry);
    const answer = await parts.backend.call("SendMessageBatch", { ...body, Entries });
    if (answer.status !== 200) return answer;
    const result = JSON.parse(answer.body) as { Successful: Sent[]; Failed?: Failed[] };
    sent.push(...result.Successful);
    failed.push(...(result.Failed ?? []));
    for (const { entry, fault } of kept) {
      const own = result.Successful.find(({ Id }) => Id === entry.Id);
      if (!own) continue;
      noteSent(parts, queue, entry, own.MessageId, fault);
      if (fault?.kind === "duplicate") await sendCopy(parts, queue, { ...body, ...entry }, fault);
    }
  }
  return sqsJson({ Successful: sent, Failed: failed });
}

function delayProblem(delay: unknown): string | undefined {
  if (delay === undefined || delay === null) return undefined;
  if (Number.isInteger(delay) && Number(delay) >= 0 && Number(delay) <= LONGEST_DELAY_SECONDS) return undefined;
  return `Value ${String(delay)} for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= ${LONGEST_DELAY_SECONDS}.`;
}

/** How long a message is held back, in seconds: as asked, plus what a fault adds. */
function heldSeconds(parts: QueueParts, queue: string, entry: Entry, fault: QueueFault | undefined): number {
  const own = entry.DelaySeconds ?? parts.defaults(queue).delaySeconds;
  if (fault?.kind === "delay") return own + (fault.seconds ?? 0);
  // A random wait lets later messages overtake this one.
  if (fault?.kind === "reorder") return own + Math.random() * (fault.seconds ?? 1);
  return own;
}

function noteSent(parts: QueueParts, queue: string, entry: Entry, messageId: string, fault?: QueueFault): void {
  const seconds = entry.DelaySeconds ?? 0;
  const note = { ...(fault ? { fault: fault.kind } : {}), ...(seconds > 0 ? { seconds } : {}) };
  parts.log.write({ queue, op: "send", messageId, ...note, body: entry.MessageBody });
  parts.wakeUps.wakeIn(queue, seconds);
}

async function sendCopy(parts: QueueParts, queue: string, entry: Entry, fault: QueueFault): Promise<void> {
  const { Id: _, ...message } = { ...entry, DelaySeconds: fault.seconds ?? 0 };
  const answer = await parts.backend.call("SendMessage", message);
  if (answer.status === 200) noteSent(parts, queue, { ...entry, ...message }, JSON.parse(answer.body).MessageId);
}

function dropped(parts: QueueParts, queue: string, entry: Entry): { MessageId: string; MD5OfMessageBody: string } {
  const MessageId = randomUUID();
  parts.log.write({ queue, op: "drop", messageId: MessageId, fault: "drop", body: entry.MessageBody });
  return { MessageId, MD5OfMessageBody: createHash("md5").update(entry.MessageBody).digest("hex") };
}

function refused(parts: QueueParts, queue: string, entry: Entry): Failed {
  parts.log.write({ queue, op: "refuse", fault: "refuse", body: entry.MessageBody });
  const Message = "Refused by a fault of the local stack.";
  return { Id: entry.Id, SenderFault: false, Code: "InternalError", Message };
}
