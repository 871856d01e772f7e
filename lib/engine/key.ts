import { createHash } from "node:crypto";

/**
 * The idempotency key of a pass: the same for every attempt, because only an accepted apply changes `appliedToken`; new
 * after every accepted apply, so that entering a state again never returns the old resource.
 */
export function keyOf(id: string, state: string, appliedToken: string | null): string {
  return createHash("sha256")
    .update(`${id}\n${state}\n${appliedToken ?? ""}`)
    .digest("hex")
    .slice(0, 32);
}
