import type { Pipeline, StateDefinition } from "../define/pipeline.ts";
import { isRefusal, MillraceError } from "../errors.ts";
import { type ClaimKey, type ClaimRow, claimSql } from "../sql/claim.ts";
import { inBatch, isLockTimeout } from "./batches.ts";
import { sendHints } from "./hint.ts";
import type { Item } from "./item.ts";
import type { Related } from "./lock-related.ts";
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
  /** An earlier claim of the row ended without an answer. */
  readonly prevLockExpired: boolean;
  readonly now: Date;
  readonly row: Readonly<Record<string, unknown>>;
  /** Rows of other tables that are locked for this pass; only where its state locks any. */
  readonly related?: Related;
}

export interface ClaimedBatch {
  readonly held: readonly Held[];
  /**
   * Not now: their last claim died, or somebody has the row locked. Claim each by itself, when nothing else is in our
   * hands.
   */
  readonly later: readonly Item[];
  /** Not claimed for certain: the database could not be reached. Their messages must come again. */
  readonly unreached: readonly Item[];
}

type Answer = ClaimRow & Readonly<Record<string, unknown>>;

/** Takes the items of a batch over, each under a token of its own. A stale one is done with. */
export async function claimItems(
  pipeline: Pipeline,
  items: readonly Item[],
  worker: string,
  ports: Ports,
): Promise<ClaimedBatch> {
  const alone = items.length === 1;
  const keys = items.map((item): ClaimKey & { item: Item } => ({
    id: item.id,
    token: item.token,
    next: crypto.randomUUID(),
    item,
  }));
  const batch: { held: Held[]; later: Item[]; unreached: Item[] } = { held: [], later: [], unreached: [] };
  let drained = false;
  // a row that another transaction has locked must not hold up its batch-mates: the second try passes over it
  let skipLocked = false;
  await inBatch(keys, {
    run: async (some, patient) => {
      const run = () =>
        ports.database.run(claimSql(pipeline, some.map(keyOf), worker, { alone, skipLocked }), { patient });
      if (alone) return run();
      try {
        return await run();
      } catch (cause) {
        if (skipLocked || !(cause instanceof MillraceError && isLockTimeout(cause))) throw cause;
        skipLocked = true;
        return run();
      }
    },
    rowOf: (key, rows: readonly Answer[]) => rows.find((r) => r.millrace_token === key.next),
    settle: async (some, outcomes) => {
      for (const [n, outcome] of outcomes.entries()) {
        const { item } = some[n]!;
        if ("error" in outcome) {
          const { code, message: error } = outcome.error;
          // a statement that fails fails again: the row comes back by itself when its lock expires
          const kept = !isRefusal(code);
          ports.events.emit(kept ? "message.kept" : "claim.failed", { pipeline: pipeline.name, id: item.id, error });
          if (kept) batch.unreached.push(item);
          continue;
        }
        const { row } = outcome;
        drained ||= row.millrace_drained;
        if (row.millrace_result === "ours") batch.held.push(heldOf(pipeline, row, ports));
        else if (row.millrace_result === "alone" || skipLocked) batch.later.push(item);
        else ports.events.emit("item.stale", { ...item, phase: "claim" });
      }
    },
  });
  if (drained) await sendHints(ports.hints, [pipeline.name]);
  return batch;
}

const keyOf = ({ id, token, next }: ClaimKey): ClaimKey => ({ id, token, next });

/** The row's own columns of an answer. */
export const rowOf = <R extends object>(answer: R): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(answer).filter(([column]) => !column.startsWith("millrace_")));

function heldOf(pipeline: Pipeline, answer: Answer, { events }: Ports): Held {
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
    prevLockExpired: answer.millrace_prev_lock_expired === true,
    now: answer.millrace_now,
    row: rowOf(answer),
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
