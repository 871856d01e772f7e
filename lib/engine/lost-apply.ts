import type { Pipeline } from "../define/pipeline.ts";
import { noteOrphanSql } from "../sql/orphan.ts";
import type { AnyChanges } from "./changes.ts";
import type { Held } from "./claim.ts";
import type { Ports } from "./ports.ts";
import { codeOf, keptText } from "./report-end.ts";

/**
 * An apply that was not written for us. Definitely `stale`: somebody else went on with the row, so the side effects are
 * undone by `onStale`. `unknown`: it may have been accepted, so nothing is undone. Either way it is said what may be
 * left behind, at error level; what nothing has undone is kept until an operator has settled it.
 */
export async function lostApply(
  pipeline: Pipeline,
  { held, changes, snapshot }: { readonly held: Held; readonly changes: AnyChanges; readonly snapshot: unknown },
  result: "stale" | "unknown",
  services: unknown,
  ports: Ports,
): Promise<void> {
  const { events } = ports;
  const about = { pipeline: pipeline.name, id: held.id, token: held.token };
  const spec = held.state?.spec;
  let orphan: string | undefined;
  try {
    orphan = spec?.orphan?.(changes as never);
  } catch (cause) {
    events.emit("finish.failed", { pipeline: pipeline.name, step: "orphan", error: codeOf(cause) });
  }
  events.emit(`item.${result}`, { ...about, phase: "apply", ...(orphan === undefined ? {} : { orphan }) });
  const undone = result === "stale" && (await undo(pipeline, held, snapshot, changes, services, events));
  if (orphan !== undefined && !undone) await keep(ports, { ...about, outcome: result, what: keptText(orphan) });
}

/** Answers whether the side effects were undone. */
async function undo(
  { name }: Pipeline,
  { id, token, state }: Held,
  snapshot: unknown,
  changes: AnyChanges,
  services: unknown,
  events: Ports["events"],
): Promise<boolean> {
  const onStale = state?.spec.onStale;
  if (onStale === undefined) return false;
  try {
    await onStale(snapshot as never, changes as never, services as never);
    events.emit("item.compensated", { pipeline: name, id, token });
    return true;
  } catch (cause) {
    events.emit("finish.failed", { pipeline: name, step: "onStale", error: codeOf(cause) });
    return false;
  }
}

async function keep(
  { database, events }: Ports,
  about: { pipeline: string; id: string; token: string; outcome: "stale" | "unknown"; what: string },
): Promise<void> {
  const { pipeline, id, token, outcome, what } = about;
  try {
    await database.run(noteOrphanSql({ token, pipeline, item_id: id, outcome, what }), { patient: true });
  } catch (cause) {
    events.emit("finish.failed", { pipeline, step: "orphan", error: String(cause) });
  }
}
