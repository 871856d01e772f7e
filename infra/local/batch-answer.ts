/* What becomes of the messages of a batch, by what the function answered. */

import type { Outcome } from "./lambda/sandbox.ts";

/** The ids of the messages that failed and stay in the queue; the others are deleted. */
export function failedMessages(
  ids: readonly string[],
  outcome: Outcome,
  reportsItemFailures: boolean,
): readonly string[] {
  if (!outcome.ok) return ids;
  // Without the response type the answer is not looked at: failures that it reports are lost, as on AWS.
  if (!reportsItemFailures) return [];
  let answer: unknown;
  try {
    answer = JSON.parse(outcome.payload);
  } catch {
    return ids;
  }
  if (answer === null || answer === undefined) return [];
  if (typeof answer !== "object") return ids;
  const { batchItemFailures: failures } = answer as { batchItemFailures?: unknown };
  if (failures === undefined || failures === null) return [];
  if (!Array.isArray(failures)) return ids;
  const failed = failures.map((each) => (each as { itemIdentifier?: unknown } | null)?.itemIdentifier);
  const known = new Set<unknown>(ids);
  return failed.every((id) => known.has(id)) ? (failed as string[]) : ids;
}
