import type { Registry } from "../define/registry.ts";
import { MillraceError } from "../errors.ts";
import { fetchPipeline } from "./fetch.ts";
import { hinted, parseHint } from "./hint.ts";
import type { Ports } from "./ports.ts";

/** A hint as it came: its body, and when it was sent. */
export interface ReceivedHint {
  readonly messageId: string;
  readonly body: string;
  /** Milliseconds since the epoch. */
  readonly sentAt: number;
}

/**
 * What a fetcher process remembers: only how recently it looked, so that load follows pipelines and not writes. Losing
 * it costs a fetch too many.
 */
export interface FetchMemory {
  /** Start of the last completed fetch of a pipeline. */
  readonly startedAt: Map<string, number>;
  /** Fetches in vain that a pipeline may still start at once. */
  readonly allowance: Map<string, { left: number; at: number }>;
}

export const fetchMemory = (): FetchMemory => ({ startedAt: new Map(), allowance: new Map() });

/** So many fetches in vain of a pipeline may follow each other at once in one process, */
const BURST = 2;
/** and then one in this time: five processes under a storm of hints stay below 50 fetches in ten seconds. */
const REFILL_MS = 2_000;
/** Clocks of the queue and of this process differ by less. */
const CLOCK_SKEW_MS = 100;

/**
 * Fetches once for each pipeline that a batch of hints means. A hint that was sent before the last completed fetch of
 * this process began is answered already. Malformed hints and unknown names are reported and dropped.
 */
export async function fetchHinted(
  registry: Registry,
  hints: readonly ReceivedHint[],
  ports: Ports,
  memory: FetchMemory,
): Promise<void> {
  const wanted = new Map<string, { sentAt: number; at: number | undefined }>();
  for (const hint of hints) {
    for (const { pipeline, at } of read(registry, hint, ports)) {
      const known = wanted.get(pipeline);
      const sentAt = Math.max(hint.sentAt, known?.sentAt ?? 0);
      // a plain hint means now; among wake-ups the earliest counts
      const earliest =
        known === undefined ? at : known.at === undefined || at === undefined ? undefined : Math.min(at, known.at);
      wanted.set(pipeline, { sentAt: Math.max(sentAt, at ?? 0), at: earliest });
    }
  }
  await Promise.all(
    [...wanted].map(async ([pipeline, { sentAt, at }]) => {
      const last = memory.startedAt.get(pipeline);
      if (last !== undefined && sentAt < last - CLOCK_SKEW_MS) {
        ports.events.emit("hint.skipped", { pipeline });
        return;
      }
      await waitUntilDue(at, ports);
      await waitForAllowance(pipeline, ports, memory);
      const startedAt = ports.clock.now();
      const { ended, found } = await fetchPipeline(registry, pipeline, ports);
      if (ended) memory.startedAt.set(pipeline, startedAt);
      // only fetches in vain are held back
      if (found) memory.allowance.delete(pipeline);
    }),
  );
}

function read(registry: Registry, { body, messageId }: ReceivedHint, { events }: Ports) {
  try {
    const hint = parseHint(body);
    const at = "at" in hint && hint.at !== undefined ? Date.parse(hint.at) : undefined;
    return hinted(registry, hint).map((pipeline) => ({ pipeline, at }));
  } catch (cause) {
    if (!(cause instanceof MillraceError)) throw cause;
    const name = cause.code === "HINT_MALFORMED" ? "message.malformed" : "message.unknown";
    events.emit(name, { code: cause.code, error: cause.message, messageId });
    return [];
  }
}

/** A message's delay is whole seconds; the rest is waited out here. More than two seconds is a link of a chain. */
async function waitUntilDue(at: number | undefined, { clock }: Ports): Promise<void> {
  if (at === undefined) return;
  const ms = at - clock.now();
  if (ms > 0 && ms < 2_000) await clock.wait(ms);
}

async function waitForAllowance(pipeline: string, { clock, timeLeft }: Ports, memory: FetchMemory): Promise<void> {
  const now = clock.now();
  const known = memory.allowance.get(pipeline) ?? { left: BURST, at: now };
  const left = Math.min(BURST, known.left + (now - known.at) / REFILL_MS) - 1;
  memory.allowance.set(pipeline, { left, at: now });
  if (left < 0) await clock.wait(Math.min(-left * REFILL_MS, Math.max(0, timeLeft() - 10_000)));
}
