import { renewSeconds } from "../define/options.ts";
import type { Pipeline } from "../define/pipeline.ts";
import { MillraceError } from "../errors.ts";
import { renewSql } from "../sql/renew.ts";
import { inBatch } from "./batches.ts";
import type { Held } from "./claim.ts";
import type { Ports } from "./ports.ts";

/** A pass that is under way. */
export interface Pass {
  readonly held: Held;
  readonly abort: AbortController;
  /** Its ending has been sent: no more renewals. */
  ended: boolean;
}

/**
 * Renews the leases of running passes every third of the lease, until `stop`. A pass whose token is gone is aborted: its
 * work would only be thrown away.
 */
export async function renewWhileRunning(
  pipeline: Pipeline,
  passes: readonly Pass[],
  ports: Ports,
  stop: AbortSignal,
): Promise<void> {
  const seconds = renewSeconds(pipeline.options);
  while (!stop.aborted) {
    await ports.clock.wait(seconds * 1000, stop);
    const running = passes.filter((p) => !p.ended && !p.abort.signal.aborted);
    if (stop.aborted || running.length === 0) continue;
    const left = Math.max(0, ports.timeLeft() / 1000);
    await inBatch(running, {
      run: (some) =>
        ports.database.run(
          renewSql(
            pipeline,
            some.map(({ held }) => ({ id: held.id, token: held.token, left })),
          ),
          // the next renewal is as good as a late answer, and the end of the batch waits for this one
          { timeoutSeconds: seconds / 2, withinSeconds: seconds },
        ),
      rowOf: ({ held }, rows) => rows.find((r) => r.id === held.id && r.token === held.token),
      settle: async (some, outcomes) => {
        for (const [n, outcome] of outcomes.entries()) {
          const pass = some[n]!;
          if ("error" in outcome)
            ports.events.emit("renewal.failed", { pipeline: pipeline.name, error: outcome.error.message });
          else if (!outcome.row.renewed && !pass.ended)
            pass.abort.abort(new MillraceError("LOCK_LOST", { pipeline: pipeline.name, id: pass.held.id }));
        }
      },
    });
  }
}
