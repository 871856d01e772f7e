import type { Pipeline } from "../define/pipeline.ts";
import type { Registry } from "../define/registry.ts";
import { type EndRow, failSql, releaseSql, resetSql } from "../sql/end.ts";
import { scopeOf } from "../sql/parts.ts";
import type { Statement } from "../sql/statement.ts";
import { type FinishContext, newAfter, note, sendAfter } from "./after.ts";
import { inBatch } from "./batches.ts";
import { toApplyItem, toInsertGroups } from "./changes.ts";
import type { Held } from "./claim.ts";
import { type Apply, applyAll, type Refused } from "./finish-apply.ts";
import type { Ports } from "./ports.ts";
import type { Ending } from "./process.ts";
import { checkRelated } from "./related-changes.ts";
import { keptText, reportEnd, textOf } from "./report-end.ts";

/** A held row and what its pass came to. */
export interface Finished {
  readonly held: Held;
  readonly ending: Ending;
  readonly ms: number;
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
  const failures: Refused[] = [];
  const retries: { held: Held; reason: string; keep: boolean }[] = [];
  const releases: { held: Held }[] = [];
  for (const f of finished) {
    const { held, ending } = f;
    if (ending.kind === "apply") {
      try {
        const item = toApplyItem(pipeline, { ...held, state: held.state! }, ending.changes, ports.random());
        // what cannot travel must not stop the statement of the whole batch
        toInsertGroups([{ ...held, changes: ending.changes }]);
        checkRelated(pipeline, held, ending.changes);
        applies.push({ ...f, item, changes: ending.changes, snapshot: ending.snapshot });
      } catch (error) {
        failures.push({ held, error });
      }
    } else if (ending.kind === "fail") failures.push({ held, error: ending.error });
    else if (ending.kind === "retry") retries.push({ held, reason: keptText(ending.reason), keep: false });
    else if (ending.kind === "contention") {
      const missing = keptText(ending.missing.join(", "));
      retries.push({ held, reason: `contention: ${missing}`, keep: true });
      ports.events.emit("item.contention", { ...aboutOf(pipeline, held), phase: ending.phase, missing });
    } else if (ending.kind === "stale")
      ports.events.emit("item.stale", { ...aboutOf(pipeline, held), phase: ending.phase });
    else releases.push({ held });
  }
  await Promise.all([
    applyAll(context, applies, (refused) => fail(context, refused)),
    fail(context, failures),
    end(context, "reset", retries, (some) =>
      resetSql(
        context.scope,
        some.map(({ held, reason, keep }) => ({ ...keyOf(held), reason, keep })),
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

const aboutOf = (pipeline: Pipeline, { id, token }: Held) => ({ pipeline: pipeline.name, id, token });

const keyOf = ({ id, token, seen }: Held) => ({ id, token, seen });

const fail = (context: FinishContext, failures: readonly Refused[]): Promise<void> =>
  end(context, "fail", failures, (some) =>
    failSql(
      context.scope,
      some.map(({ held, error }) => ({ ...keyOf(held), reason: textOf(error) })),
    ),
  );

function end<F extends { readonly held: Held; readonly reason?: string; readonly error?: unknown }>(
  context: FinishContext,
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
