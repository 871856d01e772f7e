import type { ApplyItem } from "../sql/apply.ts";
import { type ApplyRow, applySql } from "../sql/apply.ts";
import { type After, type FinishContext, newAfter, note, sendAfter } from "./after.ts";
import { inBatch, isDataError, type Outcome } from "./batches.ts";
import { type AnyChanges, toInsertGroups } from "./changes.ts";
import type { Held } from "./claim.ts";
import { lostApply } from "./lost-apply.ts";
import { toRelatedGroups, toRequestGroups } from "./related-changes.ts";

/** A pass that answered `apply`, and its answer as the statement takes it. */
export interface Apply {
  readonly held: Held;
  readonly ms: number;
  readonly item: ApplyItem;
  readonly changes: AnyChanges;
  readonly snapshot: unknown;
}

export interface Refused {
  readonly held: Held;
  readonly error: unknown;
}

/**
 * Writes answers, each whole or not at all. Those that ask something of other rows are written one by one: the rows may
 * be main rows of the others. `fail` ends what the database refuses to write.
 */
export async function applyAll(
  context: FinishContext,
  applies: readonly Apply[],
  fail: (refused: readonly Refused[]) => Promise<void>,
): Promise<void> {
  const asks = applies.filter((a) => Object.keys(a.changes.request ?? {}).length > 0);
  const plain = applies.filter((a) => !asks.includes(a));
  await Promise.all([plain, ...asks.map((a) => [a])].map((some) => applyBatch(context, some, fail)));
}

function applyBatch(
  context: FinishContext,
  applies: readonly Apply[],
  fail: (refused: readonly Refused[]) => Promise<void>,
): Promise<void> {
  const { scope, ports } = context;
  return inBatch(applies, {
    run: (some, patient) => {
      const answers = some.map(({ held, changes }) => ({ ...held, changes }));
      const beside = {
        inserts: toInsertGroups(answers),
        related: toRelatedGroups(context.pipeline, answers),
        requests: toRequestGroups(answers),
      };
      return ports.database.run(
        applySql(
          scope,
          some.map((a) => a.item),
          beside,
        ),
        { patient },
      );
    },
    rowOf: ({ held }, rows: readonly ApplyRow[]) => rows.find((r) => r.id === held.id && r.token === held.token),
    settle: async (some, outcomes) => {
      const refused: Refused[] = [];
      const rest: (() => Promise<void>)[] = [];
      const after = newAfter();
      for (const [n, outcome] of outcomes.entries()) {
        const one = some[n]!;
        if ("row" in outcome) noteApply(context, after, outcome.row, one.changes);
        if ("error" in outcome && !outcome.unanswered && isDataError(outcome.error))
          refused.push({ held: one.held, error: outcome.error });
        else rest.push(() => reportApply(context, one, outcome));
      }
      // what `onStale` undoes may take its time: nobody waits for it
      await Promise.all([fail(refused), sendAfter(context, after), ...rest.map((report) => report())]);
    },
  });
}

function noteApply(context: FinishContext, after: After, row: ApplyRow, changes: AnyChanges): void {
  note(context, after, row);
  if (row.result === "stale" || row.result === "contention") return;
  for (const table of Object.keys(changes.insert ?? {}))
    for (const { name } of context.registry.of(table)) after.hints.add(name);
}

async function reportApply(context: FinishContext, one: Apply, outcome: Outcome<ApplyRow>): Promise<void> {
  const { pipeline, services, ports } = context;
  const { held, ms } = one;
  const about = { pipeline: pipeline.name, id: held.id, token: held.token };
  if ("error" in outcome) {
    ports.events.emit("finish.failed", { pipeline: pipeline.name, step: "apply", error: outcome.error.message });
    if (outcome.unanswered) await lostApply(pipeline, one, "unknown", services, ports);
  } else if (outcome.row.result === "applied") {
    ports.events.emit("item.applied", { ...about, attempt: held.attempt, state: held.state?.name ?? "", ms });
  } else if (outcome.row.result === "already") {
    ports.events.emit("item.already", { ...about, phase: "apply" });
  } else {
    if (outcome.row.result === "contention")
      ports.events.emit("item.contention", { ...about, phase: "apply", missing: "a related row" });
    // an attempt without an answer may have been accepted and forgotten since: nobody may undo it
    await lostApply(pipeline, one, outcome.unanswered ? "unknown" : "stale", services, ports);
  }
}
