import type { Registry } from "../define/registry.ts";
import { hinted, sendHints } from "../engine/hint.ts";
import type { HintQueue } from "../engine/ports.ts";

/** Sends hints after a commit: "look now". Losing one costs at most a schedule period. */
export interface Hints {
  /** Every pipeline of the table, or the one pipeline of that name. @throws TABLE_UNKNOWN, PIPELINE_UNKNOWN */
  send(hint: { readonly table: string } | { readonly pipeline: string }): Promise<readonly string[]>;
}

export function createHints(registry: Registry, queue: HintQueue): Hints {
  return {
    async send(hint) {
      const pipelines = hinted(registry, hint);
      await sendHints(queue, pipelines);
      return pipelines;
    },
  };
}
