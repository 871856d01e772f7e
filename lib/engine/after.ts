import type { Pipeline } from "../define/pipeline.ts";
import type { Registry } from "../define/registry.ts";
import type { ApplyRow } from "../sql/apply.ts";
import type { EndRow } from "../sql/end.ts";
import type { Scope } from "../sql/parts.ts";
import { sendHints, sendWakeup } from "./hint.ts";
import type { Ports } from "./ports.ts";

/** Around the passes of a batch. */
export interface FinishContext {
  readonly registry: Registry;
  readonly pipeline: Pipeline;
  readonly scope: Scope;
  readonly services: unknown;
  readonly ports: Ports;
}

/** What has to be said once a statement is through. */
export interface After {
  readonly hints: Set<string>;
  wakeIn: number | null;
}

export const newAfter = (): After => ({ hints: new Set(), wakeIn: null });

export function note({ pipeline }: FinishContext, after: After, row: ApplyRow | EndRow): void {
  if (row.hint !== null) after.hints.add(row.hint);
  for (const name of JSON.parse(row.hints) as readonly string[]) after.hints.add(name);
  if (row.drained) after.hints.add(pipeline.name);
  if (row.wake_in !== null) after.wakeIn = row.wake_in;
}

export async function sendAfter({ pipeline, ports }: FinishContext, { hints, wakeIn }: After): Promise<void> {
  await sendHints(ports.hints, hints);
  if (wakeIn !== null) await sendWakeup(ports, pipeline.name, wakeIn);
}
