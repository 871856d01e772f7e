import type { Pipeline } from "../define/pipeline.ts";
import type { Registry } from "../define/registry.ts";
import { enqueueSql } from "../sql/enqueue.ts";
import { type FetchRow, fetchSql } from "../sql/fetch.ts";
import { type Scope, scopeOf } from "../sql/parts.ts";
import { SILENT_TICKS } from "./heartbeat.ts";
import { sendHints, sendWakeup } from "./hint.ts";
import type { Ports } from "./ports.ts";

/** After a refused send, look again this much later. */
const RETRY_SECONDS = 5;
/** Time that one more round of fetch and send may take. */
const ROUND_MS = 5_000;

interface Key {
  readonly id: string;
  readonly token: string;
}

export interface FetchRun {
  /** It came to its end: everything that was due when it began is on its way, or the queue is full. */
  readonly ended: boolean;
  /** It found rows. */
  readonly found: boolean;
}

/**
 * One run of a pipeline's fetcher: fetches until the queue is full or nothing is due, sends the ids, and ends. The marks
 * of a send ride on the next fetch of the run. Where its time is up first, it
 * asks for another.
 */
export async function fetchPipeline(
  registry: Registry,
  name: string,
  ports: Ports,
  { scheduled = false }: { readonly scheduled?: boolean } = {},
): Promise<FetchRun> {
  const pipeline = registry.get(name);
  const scope = scopeOf(registry, pipeline);
  let accepted: readonly Key[] = [];
  let locked = false;
  let woken = false;
  let again = scheduled;
  let ended = false;
  let busy = false;
  try {
    while (ports.timeLeft() > ROUND_MS) {
      const token = crypto.randomUUID();
      const answer = await fetchUntilNotBusy(scope, { token, accepted, scheduled: again }, ports);
      accepted = [];
      again = false;
      busy = answer === undefined;
      if (answer === undefined) break;
      report(pipeline, answer, ports);
      if (answer.wake_in !== null) await sendWakeup(ports, name, answer.wake_in);
      const ids = JSON.parse(answer.ids) as string[];
      ended = ids.length === 0;
      // also after the last rows: a heartbeater that did not see them yet may have ended meanwhile
      locked ||= !ended;
      if ((locked || answer.in_flight > 0) && !woken) woken = await ensureHeartbeater(pipeline, answer, ports);
      if (ended) break;
      const sent = await sendItems(pipeline, ids, token, ports);
      accepted = sent.accepted;
      if (sent.refused.length > 0) {
        accepted = [];
        ended = true;
        await enqueue(pipeline, sent.accepted, sent.refused, ports);
        break;
      }
    }
    if (accepted.length > 0) await enqueue(pipeline, accepted, [], ports);
    // whoever keeps us busy goes on fetching
    if (!ended && !busy) await sendHints(ports.hints, [name]);
    return { ended, found: locked };
  } catch (cause) {
    // no hint of its own: while the database is away such hints would multiply, and the schedule comes anyway
    ports.events.emit("fetch.failed", { pipeline: name, error: String(cause) });
    return { ended: false, found: locked };
  }
}

/**
 * `busy` is no answer: somebody fetches, perhaps with a snapshot older than the hint that started us. Undefined when the
 * time was up first.
 */
async function fetchUntilNotBusy(
  scope: Scope,
  parameters: Parameters<typeof fetchSql>[1],
  { database, clock, random, timeLeft }: Ports,
): Promise<FetchRow | undefined> {
  for (;;) {
    const { rows } = await database.run(fetchSql(scope, parameters), { patient: true });
    const answer = rows[0];
    if (answer?.why !== "busy") return answer;
    if (timeLeft() < ROUND_MS) return undefined;
    await clock.wait(100 + 400 * random());
  }
}

async function sendItems(pipeline: Pipeline, ids: readonly string[], token: string, { items }: Ports) {
  const outcomes = await items.send(ids.map((id) => ({ pipeline: pipeline.name, id, token })));
  const keys = ids.map((id) => ({ id, token }));
  return {
    accepted: keys.filter((_, n) => outcomes[n] === "accepted"),
    refused: keys.filter((_, n) => outcomes[n] !== "accepted"),
  };
}

async function enqueue(pipeline: Pipeline, accepted: readonly Key[], refused: readonly Key[], ports: Ports) {
  const { database, events } = ports;
  const { rows } = await database.run(enqueueSql(pipeline, accepted, refused, RETRY_SECONDS), { patient: true });
  const answer = rows[0];
  if (refused.length > 0)
    events.emit("items.refused", { pipeline: pipeline.name, count: refused.length, retrySeconds: RETRY_SECONDS });
  if (answer && answer.wake_in !== null) await sendWakeup(ports, pipeline.name, answer.wake_in);
}

function report(pipeline: Pipeline, answer: FetchRow, { events }: Ports): void {
  const { name } = pipeline;
  if (answer.queued > 0) events.emit("items.queued", { pipeline: name, count: answer.queued });
  for (const lost of JSON.parse(answer.lost) as { id: string; attempts: number; dead: boolean }[])
    events.emit("item.lost", { pipeline: name, ...lost });
  if (answer.expired > 0) events.emit("items.expired", { pipeline: name, count: answer.expired });
  const count = (JSON.parse(answer.ids) as unknown[]).length;
  if (count > 0) events.emit("items.fetched", { pipeline: name, count, expired: answer.expired });
}

/** Answers whether it had to start one. */
async function ensureHeartbeater(
  pipeline: Pipeline,
  answer: FetchRow,
  { wakeHeartbeater, events }: Ports,
): Promise<boolean> {
  const silent = pipeline.options.heartbeatTickSeconds * SILENT_TICKS;
  if (answer.beat_age !== null && answer.beat_age < silent) return false;
  await wakeHeartbeater().catch((cause: unknown) => events.emit("heartbeater.failed", { error: String(cause) }));
  return true;
}
