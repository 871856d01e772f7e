import { setTimeout as wait } from "node:timers/promises";
import type { LocalError } from "./errors.ts";
import type { Stack } from "./stack.ts";

/** A proof waits for one thing no longer than this. */
export const PATIENCE_SECONDS = 60;
const LOOK_EVERY_MS = 50;

/** Looks until it is done. A call that a role did not allow ends it with `refused`'s error, and a minute with `late`'s. */
export async function proveUntil(
  refused: Stack["refused"],
  done: () => Promise<boolean>,
  late: () => LocalError,
): Promise<void> {
  const deadline = performance.now() + PATIENCE_SECONDS * 1000;
  for (;;) {
    const refusal = refused();
    if (refusal) throw refusal;
    if (await done()) return;
    if (performance.now() > deadline) throw late();
    await wait(LOOK_EVERY_MS);
  }
}
