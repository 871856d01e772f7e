/* The Lambda service as functions call it: Invoke. */

import { type AwsAnswer, awsError } from "../aws-answer.ts";
import { decoded, urlOf } from "../http.ts";
import type { AsyncInvokes } from "./async-invokes.ts";
import type { LambdaFunction } from "./lambda-function.ts";

const INVOKE = /^\/2015-03-31\/functions\/([^/]+)\/invocations$/;

/** A function's name out of a name, a partial or whole ARN, with or without a qualifier. */
export function functionName(reference: string): string {
  const [, afterArn] = /(?:^|:)function:([^:]+)/.exec(reference) ?? [];
  return afterArn ?? reference.split(":")[0]!;
}

/** The function that a Lambda call is about, by its path; undefined when it is no Invoke. */
export function invokedFunction(path: string): string | undefined {
  const [, reference] = INVOKE.exec(path) ?? [];
  return reference === undefined ? undefined : functionName(decoded(reference));
}

/** The version or alias that a call is about: a part of the reference, or a parameter of its own. */
export function invokedQualifier(url: string): string | undefined {
  const { pathname, searchParams } = urlOf({ url });
  const [, reference = ""] = INVOKE.exec(pathname) ?? [];
  const [, afterName] = /(?:^|function:)[^:]+:([^:]+)$/.exec(decoded(reference)) ?? [];
  return searchParams.get("Qualifier") ?? afterName;
}

/** Answers Invoke, synchronous or not. */
export async function handleInvoke(
  fn: LambdaFunction | undefined,
  asyncInvokes: AsyncInvokes,
  invocationType: string | undefined,
  body: string,
): Promise<AwsAnswer> {
  if (!fn) return awsError(404, "ResourceNotFoundException", "Function not found.");
  const payload = body === "" ? "{}" : body;
  try {
    JSON.parse(payload);
  } catch {
    return awsError(400, "InvalidRequestContentException", "Could not parse request body into json.");
  }
  if (invocationType === "DryRun") return { status: 204, headers: {}, body: "" };
  if (invocationType === "Event") {
    const requestId = asyncInvokes.send(fn, payload);
    return { status: 202, headers: { "x-amzn-requestid": requestId }, body: "" };
  }
  const result = await fn.invoke(payload);
  if (result === "throttled") {
    const reason = { "x-amzn-errortype": "TooManyRequestsException", "content-type": "application/json" };
    const Reason = "ReservedFunctionConcurrentInvocationLimitExceeded";
    return { status: 429, headers: reason, body: JSON.stringify({ Reason, Type: "User", message: "Rate Exceeded." }) };
  }
  const headers = { "content-type": "application/json", "x-amz-executed-version": "$LATEST" };
  return {
    status: 200,
    headers: result.ok ? headers : { ...headers, "x-amz-function-error": "Unhandled" },
    body: result.payload,
  };
}
