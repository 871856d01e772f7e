import type { Pipeline, StateDefinition } from "../define/pipeline.ts";
import { MillraceError } from "../errors.ts";
import { type ClaimKey, type ClaimRow, claimSql } from "../sql/claim.ts";
import { inBatch } from "./batches.ts";
import { sendHints } from "./hint.ts";
import type { Item } from "./item.ts";
import type { Ports } from "./ports.ts";

/** A row in our hands: what was read of it at the claim. */
export interface Held {
  readonly id: string;
  /** Our own, for this pass only. */
  readonly token: string;
  /** `due_at` at the claim, as text. */
  readonly seen: string | null;
  /** Null: the row has left every state since it was fetched. */
  readonly state: StateDefinition | null;
  readonly attempt: number;
  readonly appliedToken: string | null;
  readonly now: Date;
  readonly row: Readonly<Record<string, unknown>>;
}

export interface ClaimedBatch {
  readonly held: readonly Held[];
  /** Their last claim died: claim each by itself, when nothing else runs. */
  readonly alone: readonly Item[];
  /** Not claimed for certain: the database could not be reached. Their messages must come again. */
  readonly unreached: readonly Item[];
}

/** Takes the items of a batch over, each under a token of its own. A stale one is done with. */
export async function claimItems(
  pipeline: Pipeline,
  items: readonly Item[],
  worker: string,
  ports: Ports,
  alone: boolean,
): Promise<ClaimedBatch> {
  const keys = items.map(({ id, token }): ClaimKey => ({ id, token, next: crypto.randomUUID() }));
  const outcomes = await inBatch(
    keys,
    (some, patient) => ports.database.run(claimSql(pipeline, some, worker, alone), { patient }),
    (key, rows) => rows.find((r) => r.millrace_token === key.next),
  );
  const batch: { held: Held[]; alone: Item[]; unreached: Item[] } = { held: [], alone: [], unreached: [] };
  let drained = false;
  outcomes.forEach((outcome, n) => {
    const item = items[n]!;
    if ("error" in outcome) {
      ports.events.emit("messages.kept", { count: 1, error: outcome.error.message });
      batch.unreached.push(item);
      return;
    }
    drained ||= outcome.row.millrace_drained;
    if (outcome.row.millrace_result === "ours") batch.held.push(heldOf(pipeline, outcome.row, ports));
    else if (outcome.row.millrace_result === "alone") batch.alone.push(item);
    else ports.events.emit("item.stale", { pipeline: pipeline.name, id: item.id, token: item.token, phase: "claim" });
  });
  if (drained) await sendHints(ports.hints, [pipeline.name]);
  return batch;
}

function heldOf(pipeline: Pipeline, answer: ClaimRow & Readonly<Record<string, unknown>>, { events }: Ports): Held {
  const row = Object.fromEntries(Object.entries(answer).filter(([column]) => !column.startsWith("millrace_")));
  const state = pipeline.states.find((s) => s.name === answer.millrace_state) ?? null;
  if (answer.millrace_attempts === null)
    throw new MillraceError("STATEMENT_FAILED", { statement: "claim", message: "no item" });
  const held: Held = {
    id: answer.millrace_id,
    token: answer.millrace_token,
    seen: answer.millrace_seen_due,
    state,
    attempt: answer.millrace_attempts,
    appliedToken: answer.millrace_applied_token,
    now: answer.millrace_now,
    row,
  };
  if (state !== null)
    events.emit("item.claimed", {
      pipeline: pipeline.name,
      id: held.id,
      token: held.token,
      attempt: held.attempt,
      state: state.name,
    });
  return held;
}
