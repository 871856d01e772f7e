/* What must hold after bad input, beside what must hold of everything that was asked for. */

import { GetQueueAttributesCommand, SQSClient } from "@aws-sdk/client-sqs";
import type { Check } from "../chaos/checks.ts";
import type { LocalStack } from "../support/stack.ts";
import { until } from "../support/until.ts";

const DRAIN_MS = 120_000;

/** Waits until every queue has been empty for a moment; wake-ups that wait for their time may stay. */
export async function checkDrained(stack: LocalStack, timeoutMs = DRAIN_MS): Promise<Check> {
  const { awsEndpoint: endpoint, region } = stack.local;
  const credentials = { accessKeyId: "any", secretAccessKey: "any" };
  const sqs = new SQSClient({ endpoint, region, credentials, useQueueUrlAsEndpoint: false });
  const left = async (url: string) => {
    const { Attributes = {} } = await sqs.send(
      new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: ["All"] }),
    );
    const { ApproximateNumberOfMessages: visible, ApproximateNumberOfMessagesNotVisible: hidden } = Attributes;
    return Number(visible) + Number(hidden);
  };
  const wrong: string[] = [];
  for (const [name, { url }] of Object.entries(stack.local.queues))
    await until(async () => (await left(url)) === 0, { what: `${name} to be empty`, timeoutMs, everyMs: 50 }).catch(
      async (error: unknown) => wrong.push(`${String(error)}; it has ${await left(url)}`),
    );
  sqs.destroy();
  return { name: "all queues are drained", wrong };
}

/** No invocation failed: no message came again for a batch-mate's sake, no process died or ran out of time. */
export function checkInvocations(stack: LocalStack): Check {
  const wrong = Object.keys(stack.local.functions).flatMap((name) =>
    stack
      .logs(name)
      .filter(
        ({ type, record }) => type === "platform.timeout" || (type === "platform.report" && record.status === "error"),
      )
      .map(({ record }) => `${name}: invocation ${record.requestId} ${record.message ?? "failed"}`),
  );
  return { name: "no invocation of any function failed", wrong };
}

/** Every function still does what it is there for: a new volume goes through all of them, and is gone again. */
export async function checkAlive(stack: LocalStack): Promise<Check> {
  const wrong: string[] = [];
  const { body: states } = await stack.control("GET", "/functions");
  for (const { name, state } of states) if (state !== "running") wrong.push(`${name} is ${state}`);
  const { body: volume } = await stack.api("POST", "/volumes", { name: "after it all", sizeGb: 1 });
  const status = async () => {
    const answer = await stack.api("GET", `/volumes/${volume.id}`);
    return answer.status === 200 ? answer.body.status : answer.status;
  };
  const reach = (wanted: string | number) =>
    until(async () => (await status()) === wanted, {
      what: `a new volume to be ${wanted}`,
      timeoutMs: 90_000,
      everyMs: 100,
    });
  await reach("active")
    .then(() => stack.api("DELETE", `/volumes/${volume.id}`))
    .then(() => reach(404))
    .catch((error: unknown) => wrong.push(String(error)));
  return { name: "every function is alive", wrong };
}

/** The engine's own refusals of messages, by code. */
export function refusedMessages(stack: LocalStack, functionName: string): readonly string[] {
  return stack
    .logs(functionName)
    .filter(({ message }) => message === "message.malformed" || message === "message.unknown")
    .map(({ code }) => code);
}
