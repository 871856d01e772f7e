import type { Pipeline } from "../define/pipeline.ts";
import type { AnyChanges } from "./changes.ts";
import type { Held } from "./claim.ts";
import type { Ports } from "./ports.ts";

/**
 * An apply that was not written for us. Definitely `stale`: somebody else went on with the row, so the side effects are
 * undone by `onStale`. `unknown`: it may have been accepted, so nothing is undone. Either way it is said what may be
 * left behind.
 */
export async function lostApply(
  pipeline: Pipeline,
  { held, changes, snapshot }: { readonly held: Held; readonly changes: AnyChanges; readonly snapshot: unknown },
  result: "stale" | "unknown",
  services: unknown,
  { events }: Ports,
): Promise<void> {
  const about = { pipeline: pipeline.name, id: held.id, token: held.token };
  const spec = held.state?.spec;
  let orphan: string | undefined;
  try {
    orphan = spec?.orphan?.(changes as never);
  } catch (cause) {
    events.emit("finish.failed", { pipeline: pipeline.name, step: "orphan", error: String(cause) });
  }
  events.emit(`item.${result}`, { ...about, phase: "apply", ...(orphan === undefined ? {} : { orphan }) });
  if (result === "unknown" || spec?.onStale === undefined) return;
  try {
    await spec.onStale(snapshot as never, changes as never, services as never);
    events.emit("item.compensated", about);
  } catch (cause) {
    events.emit("finish.failed", { pipeline: pipeline.name, step: "onStale", error: String(cause) });
  }
}
