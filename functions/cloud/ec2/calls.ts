import { createHash } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import type { EC2Client } from "@aws-sdk/client-ec2";
import type { SSMClient } from "@aws-sdk/client-ssm";
import { CloudError } from "../errors.ts";
import type { Ec2Settings } from "./settings.ts";

/** What every operation works with. */
export interface Aws {
  readonly ec2: EC2Client;
  readonly ssm: SSMClient;
  readonly settings: Ec2Settings;
  /** Between two looks at something that AWS is still doing. Milliseconds. */
  readonly pauseMs: number;
}

/** Answers of 4xx that tell about the moment, not about the request. */
const MOMENTARY = new Set([
  "RequestLimitExceeded",
  "Throttling",
  "ThrottlingException",
  "TooManyUpdates",
  "RequestExpired",
  // an attachment of a volume that is still being created
  "IncorrectState",
]);

/**
 * One call to AWS. Errors: the signal's reason when it aborts; CLOUD_UNREACHABLE without an answer; CLOUD_FAILED, which
 * may be repeated, for throttling and 5xx; CLOUD_REFUSED for the rest of 4xx. `details.code` is the code of AWS.
 */
export async function call<T>(op: string, signal: AbortSignal, send: () => Promise<T>): Promise<T> {
  try {
    signal.throwIfAborted();
    return await send();
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw cloudError(op, error);
  }
}

function cloudError(op: string, error: unknown): CloudError {
  if (error instanceof CloudError) return error;
  const { name, message, status } = partsOf(error);
  if (status === undefined) {
    return new CloudError("CLOUD_UNREACHABLE", { op, url: "AWS", reason: `${name}: ${message}` }, { cause: error });
  }
  const code = status < 500 && status !== 429 && !MOMENTARY.has(name) ? "CLOUD_REFUSED" : "CLOUD_FAILED";
  return new CloudError(code, { op, status, code: name, reason: message }, { cause: error });
}

function partsOf(error: unknown) {
  const { $metadata } = error as { $metadata?: { httpStatusCode?: number } };
  const { name, message } = error instanceof Error ? error : { name: "Error", message: String(error) };
  return { name, message, status: $metadata?.httpStatusCode };
}

/** Whether AWS refused with one of these codes. */
export function isRefusal(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof CloudError && codes.includes(String(error.details["code"]));
}

/** Awaits `step`, taking these codes of AWS for success. */
export async function accept(step: Promise<unknown>, ...codes: readonly string[]): Promise<void> {
  try {
    await step;
  } catch (error) {
    if (!isRefusal(error, ...codes)) throw error;
  }
}

/** Waits before the next look. Errors: the signal's reason. */
export async function pause({ pauseMs }: Aws, signal: AbortSignal): Promise<void> {
  try {
    await wait(pauseMs, undefined, { signal });
  } catch {
    signal.throwIfAborted();
  }
}

/**
 * A key as AWS takes it: client tokens have at most 64 ASCII characters. It also names the folder of a command.
 * https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html
 */
export function tokenOf(key: string): string {
  return /^[\w-]{1,64}$/.test(key) ? key : createHash("sha256").update(key).digest("hex");
}
