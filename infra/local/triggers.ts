/* Triggers: functions that are invoked while a stack is made, such as the one that migrates the database. */

import { LocalError } from "./errors.ts";
import type { LambdaFunction } from "./lambda/lambda-function.ts";

/** Invokes a trigger's function and waits for it. Throws TRIGGER_FAILED with the function's error. */
export async function runTrigger(id: string, fn: LambdaFunction): Promise<void> {
  const result = await fn.invoke("{}");
  if (result !== "throttled" && result.ok) return;
  const error = result === "throttled" ? "it was throttled" : errorText(result.payload);
  throw new LocalError("TRIGGER_FAILED", { id, functionName: fn.spec.name, error, logFile: fn.log.file });
}

function errorText(payload: string): string {
  const { errorType, errorMessage } = JSON.parse(payload) as { errorType?: string; errorMessage?: string };
  return `${errorType}: ${errorMessage}`;
}
