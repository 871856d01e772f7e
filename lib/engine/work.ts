import type { Pipeline } from "../define/pipeline.ts";
import type { Registry } from "../define/registry.ts";
import { MillraceError } from "../errors.ts";
import { claimItems, type Held } from "./claim.ts";
import { type Finished, finish } from "./finish.ts";
import { finisher } from "./finisher.ts";
import { type Item, parseItem } from "./item.ts";
import { lockRelated } from "./lock-related.ts";
import type { Ports } from "./ports.ts";
import { FINISH_MS, processItem } from "./process.ts";
import { type Pass, renewWhileRunning } from "./renewals.ts";

/** A message of an item queue. */
export interface Message {
  readonly messageId: string;
  readonly body: string;
}

/**
 * The life of a batch of messages, top to bottom: claim, lock related rows, process, finish. Answers the messages that must be delivered
 * again: only those whose claim did not reach the database. Everything else is retried by the row, not the message.
 */
export async function workBatch<S>(
  registry: Registry<S>,
  messages: readonly Message[],
  services: S,
  worker: string,
  ports: Ports,
): Promise<readonly string[]> {
  const keep: string[] = [];
  for (const [pipeline, received] of byPipeline(registry, messages, ports)) {
    const items = received.map((r) => r.item);
    const batch = await claimItems(pipeline, items, worker, ports);
    keep.push(...received.filter((r) => batch.unreached.includes(r.item)).map((r) => r.messageId));
    await runPasses(registry, pipeline, batch.held, services, ports);
    keep.push(...(await workAlone(registry, pipeline, batch.later, received, services, worker, ports)));
  }
  return keep;
}

interface Received {
  readonly messageId: string;
  readonly item: Item;
}

/** Parses the messages. A malformed one, or one for a pipeline that nobody knows, is reported and done with. */
function byPipeline(registry: Registry, messages: readonly Message[], { events }: Ports): Map<Pipeline, Received[]> {
  const groups = new Map<Pipeline, Received[]>();
  for (const { messageId, body } of messages) {
    try {
      const item = parseItem(body);
      const pipeline = registry.get(item.pipeline);
      groups.set(pipeline, [...(groups.get(pipeline) ?? []), { messageId, item }]);
    } catch (cause) {
      if (!(cause instanceof MillraceError)) throw cause;
      const name = cause.code === "ITEM_MALFORMED" ? "message.malformed" : "message.unknown";
      events.emit(name, { code: cause.code, error: cause.message, messageId });
    }
  }
  return groups;
}

/** Processes held rows side by side; each is written when it is done, those that end together in one statement. */
async function runPasses(
  registry: Registry,
  pipeline: Pipeline,
  held: readonly Held[],
  services: unknown,
  ports: Ports,
): Promise<void> {
  if (held.length === 0) return;
  const passes = held.map((h): Pass => ({ held: h, abort: new AbortController(), ended: false }));
  const writer = finisher<Finished>(
    ports.clock,
    () => passes.filter((p) => !p.ended).length,
    (some) => finish(registry, pipeline, some, services, ports),
  );
  const stop = new AbortController();
  const renewing = renewWhileRunning(pipeline, passes, ports, stop.signal);
  const locked = lockRelated(registry, pipeline, held, ports);
  await Promise.all(
    passes.map(async (pass) => {
      const from = ports.clock.now();
      const got = await locked(pass.held);
      const mine = "held" in got ? got.held : pass.held;
      const ending = "held" in got ? await processItem(pipeline, mine, services, pass.abort, ports) : got.ending;
      pass.ended = true;
      await writer.add({ held: mine, ending, ms: Math.round(ports.clock.now() - from) });
    }),
  );
  stop.abort();
  await renewing;
}

/**
 * Suspects and rows that somebody had locked, one by one, each claimed right before it runs and when nothing else is in
 * our hands: a row that kills its process takes nobody along. Those for which no time is left stay queued, and are sent
 * again.
 */
async function workAlone(
  registry: Registry,
  pipeline: Pipeline,
  items: readonly Item[],
  received: readonly Received[],
  services: unknown,
  worker: string,
  ports: Ports,
): Promise<string[]> {
  const keep: string[] = [];
  for (const item of items) {
    if (ports.timeLeft() < pipeline.options.processTimeoutSeconds * 1000 + 2 * FINISH_MS) {
      ports.events.emit("item.alone", { pipeline: pipeline.name, id: item.id });
      continue;
    }
    const { held, unreached } = await claimItems(pipeline, [item], worker, ports);
    keep.push(...received.filter((r) => unreached.includes(r.item)).map((r) => r.messageId));
    await runPasses(registry, pipeline, held, services, ports);
  }
  return keep;
}
