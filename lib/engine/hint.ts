import { isPipelineName, isTableName } from "../define/names.ts";
import type { Registry } from "../define/registry.ts";
import { MillraceError } from "../errors.ts";
import { parseObject } from "./item.ts";
import type { HintQueue, Ports } from "./ports.ts";

/** "Look now": a pipeline's name, or a table's, whose pipelines are all meant; `at` is the due time of a wake-up. */
export type Hint = { readonly pipeline: string; readonly at?: string } | { readonly table: string };

/** The body of a hint message: `{"v":1,"table":"volumes"}` or `{"v":1,"pipeline":"volumes","at":"…"}`. */
export const hintBody = (hint: Hint): string => JSON.stringify({ v: 1, ...hint });

/** @throws HINT_MALFORMED */
export function parseHint(body: string): Hint {
  const { v, table, pipeline, at } = parseObject(body, "HINT_MALFORMED");
  if (v !== 1) throw new MillraceError("HINT_MALFORMED", { reason: "v is not 1" });
  if ((pipeline === undefined) === (table === undefined))
    throw new MillraceError("HINT_MALFORMED", { reason: "it names neither one pipeline nor one table" });
  if (table !== undefined) {
    if (isTableName(table)) return { table };
    throw new MillraceError("HINT_MALFORMED", { reason: "table is no name of one" });
  }
  if (!isPipelineName(pipeline)) throw new MillraceError("HINT_MALFORMED", { reason: "pipeline is no name of one" });
  if (at === undefined) return { pipeline };
  if (typeof at !== "string" || Number.isNaN(Date.parse(at)))
    throw new MillraceError("HINT_MALFORMED", { reason: "at is no time" });
  return { pipeline, at };
}

/** The pipelines that a hint means. @throws PIPELINE_UNKNOWN, TABLE_UNKNOWN */
export function hinted(registry: Registry, hint: Hint): readonly string[] {
  if ("pipeline" in hint) return [registry.get(hint.pipeline).name];
  const pipelines = registry.of(hint.table);
  if (pipelines.length === 0)
    throw new MillraceError("TABLE_UNKNOWN", { table: hint.table, registered: registry.tables.join(", ") });
  return pipelines.map((p) => p.name);
}

/** At most one hint a pipeline, now. */
export function sendHints(hints: HintQueue, pipelines: Iterable<string>): Promise<void> {
  const bodies = [...new Set(pipelines)].map((pipeline) => ({ body: hintBody({ pipeline }), delaySeconds: 0 }));
  return bodies.length === 0 ? Promise.resolve() : hints.send(bodies);
}

/** Amazon SQS: the longest DelaySeconds. */
const MOST_DELAY_SECONDS = 900;

/**
 * A hint for the moment when the next row is due: the whole seconds until then as the message's delay; the fetcher waits
 * out the rest. Later than 15 minutes it is a chain: the fetch that it causes sends the next.
 */
export function sendWakeup(
  { hints, clock }: Pick<Ports, "hints" | "clock">,
  pipeline: string,
  inSeconds: number,
): Promise<void> {
  const at = new Date(clock.now() + inSeconds * 1000).toISOString();
  const delaySeconds = Math.max(0, Math.min(MOST_DELAY_SECONDS, Math.floor(inSeconds)));
  return hints.send([{ body: hintBody({ pipeline, at }), delaySeconds }]);
}
