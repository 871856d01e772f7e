import type { Pipeline } from "../define/pipeline.ts";
import type { Registry } from "../define/registry.ts";
import { MillraceError } from "../errors.ts";
import { type ApplyItem, type ApplyRow, applySql } from "../sql/apply.ts";
import { type EndRow, failSql, releaseSql, resetSql } from "../sql/end.ts";
import { scopeOf } from "../sql/parts.ts";
import { inBatch, type Outcome } from "./batches.ts";
import { type AnyChanges, toApplyItem, toInsertGroups } from "./changes.ts";
import type { Held } from "./claim.ts";
import { sendHints, sendWakeup } from "./hint.ts";
import { lostApply } from "./lost-apply.ts";
import type { Ports } from "./ports.ts";
import type { Ending } from "./process.ts";

/** A held row and what its pass came to. */
export interface Finished {
  readonly held: Held;
  readonly ending: Ending;
  readonly ms: number;
}

type Of<K extends Ending["kind"]> = Finished & { readonly ending: Extract<Ending, { kind: K }> };

/** The longest error text that is kept. */
const MOST_TEXT = 2_000;

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
  const scope = scopeOf(registry, pipeline);
  const of = <K extends Ending["kind"]>(kind: K) => finished.filter((f): f is Of<K> => f.ending.kind === kind);
  const { applies, refused } = prepareApplies(pipeline, of("apply"), ports);
  const after: After = { hints: new Set(), wakeIn: null };

  const applied = await inBatch(
    applies,
    (some, patient) =>
      ports.database.run(
        applySql(
          scope,
          some.map((a) => a.item),
          toInsertGroups(some.map(({ held, changes }) => ({ id: held.id, token: held.token, changes }))),
        ),
        { patient },
      ),
    (a, rows) => rows.find((r) => r.id === a.held.id && r.token === a.held.token),
  );
  const failures: Failure[] = [...refused];
  for (const [n, outcome] of applied.entries()) {
    const apply = applies[n]!;
    note(after, registry, pipeline, outcome, apply.changes);
    const failure = await reportApply(pipeline, apply, outcome, services, ports);
    if (failure) failures.push(failure);
  }

  for (const { held, ending } of of("fail")) failures.push({ held, error: ending.error });
  const key = (held: Held) => ({ id: held.id, token: held.token, seen: held.seen });
  await end(pipeline, failures, "fail", ports, after, (some) =>
    failSql(
      scope,
      some.map(({ held, error }) => ({ ...key(held), reason: textOf(error) })),
    ),
  );
  await end(pipeline, of("retry"), "reset", ports, after, (some) =>
    resetSql(
      scope,
      some.map(({ held, ending }) => ({ ...key(held), reason: ending.reason.slice(0, MOST_TEXT), keep: false })),
    ),
  );
  await end(pipeline, of("release"), "release", ports, after, (some) =>
    releaseSql(
      scope,
      some.map(({ held }) => key(held)),
    ),
  );

  await sendHints(ports.hints, after.hints);
  if (after.wakeIn !== null) await sendWakeup(ports, pipeline.name, after.wakeIn);
}

interface After {
  readonly hints: Set<string>;
  wakeIn: number | null;
}

interface Failure {
  readonly held: Held;
  readonly error: unknown;
}

interface Apply extends Finished {
  readonly item: ApplyItem;
  readonly changes: AnyChanges;
  readonly snapshot: unknown;
}

function prepareApplies(pipeline: Pipeline, finished: readonly Of<"apply">[], { random }: Ports) {
  const applies: Apply[] = [];
  const refused: Failure[] = [];
  for (const f of finished) {
    const { changes, snapshot } = f.ending;
    try {
      const item = toApplyItem(pipeline, { ...f.held, state: f.held.state! }, changes, random());
      applies.push({ ...f, item, changes, snapshot });
    } catch (error) {
      refused.push({ held: f.held, error });
    }
  }
  return { applies, refused };
}

function note(
  after: After,
  registry: Registry,
  pipeline: Pipeline,
  outcome: Outcome<ApplyRow>,
  changes: AnyChanges,
): void {
  if ("error" in outcome) return;
  const { row } = outcome;
  if (row.hint !== null) after.hints.add(row.hint);
  if (row.drained) after.hints.add(pipeline.name);
  if (row.wake_in !== null) after.wakeIn = row.wake_in;
  if (row.result !== "stale")
    for (const table of Object.keys(changes.insert ?? {})) for (const p of registry.of(table)) after.hints.add(p.name);
}

async function reportApply(
  pipeline: Pipeline,
  apply: Apply,
  outcome: Outcome<ApplyRow>,
  services: unknown,
  ports: Ports,
): Promise<Failure | undefined> {
  const { held, ms } = apply;
  const about = { pipeline: pipeline.name, id: held.id, token: held.token };
  const { events } = ports;
  if ("error" in outcome) {
    // whether it ran is not known, or it certainly did not: only the latter is a failure of the item
    if (!outcome.unanswered && outcome.error.code === "STATEMENT_FAILED") return { held, error: outcome.error };
    events.emit("finish.failed", { pipeline: pipeline.name, step: "apply", error: outcome.error.message });
    if (outcome.unanswered) await lostApply(pipeline, apply, "unknown", services, ports);
    return undefined;
  }
  const state = held.state?.name ?? "";
  if (outcome.row.result === "applied") events.emit("item.applied", { ...about, attempt: held.attempt, state, ms });
  else if (outcome.row.result === "already") events.emit("item.already", { ...about, phase: "apply" });
  // an attempt without an answer may have been accepted and forgotten since: nobody may undo it
  else await lostApply(pipeline, apply, outcome.unanswered ? "unknown" : "stale", services, ports);
  return undefined;
}

async function end<F extends { readonly held: Held }>(
  pipeline: Pipeline,
  items: readonly F[],
  step: "fail" | "reset" | "release",
  ports: Ports,
  after: After,
  build: (some: readonly F[]) => ReturnType<typeof failSql>,
): Promise<void> {
  const outcomes = await inBatch(
    items,
    (some, patient) => ports.database.run(build(some), { patient }),
    ({ held }, rows) => rows.find((r) => r.id === held.id && r.token === held.token),
  );
  for (const [n, outcome] of outcomes.entries()) {
    const item = items[n]!;
    if ("error" in outcome) {
      ports.events.emit("finish.failed", { pipeline: pipeline.name, step, error: outcome.error.message });
      continue;
    }
    if (outcome.row.hint !== null) after.hints.add(outcome.row.hint);
    if (outcome.row.drained) after.hints.add(pipeline.name);
    if (outcome.row.wake_in !== null) after.wakeIn = outcome.row.wake_in;
    reportEnd(pipeline, item, step, outcome.row, ports);
  }
}

function reportEnd(
  pipeline: Pipeline,
  { held, ...rest }: { readonly held: Held; readonly error?: unknown; readonly ending?: Ending },
  step: "fail" | "reset" | "release",
  row: EndRow,
  { events }: Ports,
): void {
  const about = { pipeline: pipeline.name, id: held.id, token: held.token };
  if (row.result === "stale") events.emit("item.stale", { ...about, phase: step });
  else if (row.result === "already") events.emit("item.already", { ...about, phase: step });
  else if (step === "release") events.emit("item.released", about);
  else if (step === "reset")
    events.emit("item.retried", {
      ...about,
      attempt: held.attempt,
      reason: rest.ending?.kind === "retry" ? rest.ending.reason : "",
    });
  else if (row.state === "dead")
    events.emit("item.dead", { ...about, attempt: held.attempt, error: textOf(rest.error) });
  else
    events.emit("item.failed", {
      ...about,
      attempt: held.attempt,
      error: textOf(rest.error),
      retryInSeconds: row.due_in,
    });
}

export function textOf(error: unknown): string {
  const text =
    error instanceof MillraceError
      ? `${error.code}: ${error.message}`
      : error instanceof Error
        ? error.message
        : String(error);
  return text.slice(0, MOST_TEXT);
}
