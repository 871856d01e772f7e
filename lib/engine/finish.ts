import type { Pipeline } from "../define/pipeline.ts";
import type { Registry } from "../define/registry.ts";
import { type ApplyItem, type ApplyRow, applySql } from "../sql/apply.ts";
import { type EndRow, failSql, releaseSql, resetSql } from "../sql/end.ts";
import { type Scope, scopeOf } from "../sql/parts.ts";
import type { Statement } from "../sql/statement.ts";
import { inBatch, isDataError, type Outcome } from "./batches.ts";
import { type AnyChanges, toApplyItem, toInsertGroups } from "./changes.ts";
import type { Held } from "./claim.ts";
import { sendHints, sendWakeup } from "./hint.ts";
import { lostApply } from "./lost-apply.ts";
import type { Ports } from "./ports.ts";
import type { Ending } from "./process.ts";
import { keptText, reportEnd, textOf } from "./report-end.ts";

/** A held row and what its pass came to. */
export interface Finished {
  readonly held: Held;
  readonly ending: Ending;
  readonly ms: number;
}

interface Apply extends Finished {
  readonly item: ApplyItem;
  readonly changes: AnyChanges;
  readonly snapshot: unknown;
}

interface Context {
  readonly registry: Registry;
  readonly pipeline: Pipeline;
  readonly scope: Scope;
  readonly services: unknown;
  readonly ports: Ports;
}

/**
 * Writes how a batch of passes ended, one statement for each kind, and sends the hints that follow from it. Throws
 * nothing: what could not be written is reported, and the lock's expiry brings the row back.
 */
export async function finish(
  registry: Registry,
  pipeline: Pipeline,
  finished: readonly Finished[],
  services: unknown,
  ports: Ports,
): Promise<void> {
  const context = { registry, pipeline, scope: scopeOf(registry, pipeline), services, ports };
  const applies: Apply[] = [];
  const failures: Failure[] = [];
  const retries: { held: Held; reason: string }[] = [];
  const releases: { held: Held }[] = [];
  for (const f of finished) {
    const { held, ending } = f;
    if (ending.kind === "apply") {
      try {
        const item = toApplyItem(pipeline, { ...held, state: held.state! }, ending.changes, ports.random());
        // what cannot travel must not stop the statement of the whole batch
        toInsertGroups([{ ...held, changes: ending.changes }]);
        applies.push({ ...f, item, changes: ending.changes, snapshot: ending.snapshot });
      } catch (error) {
        failures.push({ held, error });
      }
    } else if (ending.kind === "fail") failures.push({ held, error: ending.error });
    else if (ending.kind === "retry") retries.push({ held, reason: keptText(ending.reason) });
    else releases.push({ held });
  }
  await Promise.all([
    apply(context, applies),
    fail(context, failures),
    end(context, "reset", retries, (some) =>
      resetSql(
        context.scope,
        some.map(({ held, reason }) => ({ ...keyOf(held), reason, keep: false })),
      ),
    ),
    end(context, "release", releases, (some) =>
      releaseSql(
        context.scope,
        some.map(({ held }) => keyOf(held)),
      ),
    ),
  ]);
}

interface Failure {
  readonly held: Held;
  readonly error: unknown;
}

const keyOf = ({ id, token, seen }: Held) => ({ id, token, seen });

const fail = (context: Context, failures: readonly Failure[]): Promise<void> =>
  end(context, "fail", failures, (some) =>
    failSql(
      context.scope,
      some.map(({ held, error }) => ({ ...keyOf(held), reason: textOf(error) })),
    ),
  );

function apply(context: Context, applies: readonly Apply[]): Promise<void> {
  const { scope, ports } = context;
  return inBatch(applies, {
    run: (some, patient) => {
      const inserts = toInsertGroups(some.map(({ held, changes }) => ({ id: held.id, token: held.token, changes })));
      return ports.database.run(
        applySql(
          scope,
          some.map((a) => a.item),
          inserts,
        ),
        { patient },
      );
    },
    rowOf: ({ held }, rows: readonly ApplyRow[]) => rows.find((r) => r.id === held.id && r.token === held.token),
    settle: async (some, outcomes) => {
      const refused: Failure[] = [];
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
      await Promise.all([fail(context, refused), sendAfter(context, after), ...rest.map((report) => report())]);
    },
  });
}

/** What has to be said once a statement is through. */
interface After {
  readonly hints: Set<string>;
  wakeIn: number | null;
}

const newAfter = (): After => ({ hints: new Set(), wakeIn: null });

function note({ pipeline }: Context, after: After, row: ApplyRow | EndRow): void {
  if (row.hint !== null) after.hints.add(row.hint);
  if (row.drained) after.hints.add(pipeline.name);
  if (row.wake_in !== null) after.wakeIn = row.wake_in;
}

function noteApply(context: Context, after: After, row: ApplyRow, changes: AnyChanges): void {
  note(context, after, row);
  if (row.result === "stale") return;
  for (const table of Object.keys(changes.insert ?? {}))
    for (const { name } of context.registry.of(table)) after.hints.add(name);
}

async function sendAfter({ pipeline, ports }: Context, { hints, wakeIn }: After): Promise<void> {
  await sendHints(ports.hints, hints);
  if (wakeIn !== null) await sendWakeup(ports, pipeline.name, wakeIn);
}

async function reportApply(context: Context, one: Apply, outcome: Outcome<ApplyRow>): Promise<void> {
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
    // an attempt without an answer may have been accepted and forgotten since: nobody may undo it
    await lostApply(pipeline, one, outcome.unanswered ? "unknown" : "stale", services, ports);
  }
}

function end<F extends { readonly held: Held; readonly reason?: string; readonly error?: unknown }>(
  context: Context,
  step: "fail" | "reset" | "release",
  items: readonly F[],
  build: (some: readonly F[]) => Statement<EndRow>,
): Promise<void> {
  const { pipeline, ports } = context;
  return inBatch(items, {
    run: (some, patient) => ports.database.run(build(some), { patient }),
    rowOf: ({ held }, rows: readonly EndRow[]) => rows.find((r) => r.id === held.id && r.token === held.token),
    settle: async (some, outcomes) => {
      const after = newAfter();
      for (const [n, outcome] of outcomes.entries()) {
        if ("error" in outcome) {
          ports.events.emit("finish.failed", { pipeline: pipeline.name, step, error: outcome.error.message });
          continue;
        }
        note(context, after, outcome.row);
        reportEnd(pipeline, some[n]!, step, outcome.row, ports);
      }
      await sendAfter(context, after);
    },
  });
}
