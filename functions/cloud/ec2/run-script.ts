import { GetCommandInvocationCommand, SendCommandCommand } from "@aws-sdk/client-ssm";
import { CloudError } from "../errors.ts";
import { type Aws, call, isRefusal, pause } from "./calls.ts";
import { ec2Instances } from "./instances.ts";

/** Seconds: for the delivery 30 is the least that Systems Manager takes; no script of ours runs long. */
const DELIVERY_SECONDS = 30;
const EXECUTION_SECONDS = "60";

/**
 * Runs a script on an instance as root and answers what it printed; undefined when the instance is gone. Systems
 * Manager keeps the first 24,000 characters.
 * https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetCommandInvocation.html
 *
 * Errors: CLOUD_FAILED when the script failed or did not reach the instance: it may be repeated.
 */
export async function runScript(
  aws: Aws,
  op: string,
  instanceId: string,
  script: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    return await answerOf(aws, op, instanceId, script, signal);
  } catch (error) {
    if (!(error instanceof CloudError) || error.code === "CLOUD_UNREACHABLE") throw error;
    const state = await ec2Instances(aws).instanceState(instanceId, { signal });
    if (state === "gone") return undefined;
    // So is an instance called that exists, but whose agent is not connected at the moment.
    if (!isRefusal(error, "InvalidInstanceId")) throw error;
    throw new CloudError("CLOUD_FAILED", { ...error.details, reason: `${instanceId} is not connected` });
  }
}

async function answerOf(
  { ssm, ...rest }: Aws,
  op: string,
  InstanceId: string,
  script: string,
  signal: AbortSignal,
): Promise<string> {
  const sending = new SendCommandCommand({
    Comment: `millrace ${op}`,
    DocumentName: "AWS-RunShellScript",
    InstanceIds: [InstanceId],
    Parameters: { commands: [script], executionTimeout: [EXECUTION_SECONDS] },
    TimeoutSeconds: DELIVERY_SECONDS,
  });
  const { Command } = await call(op, signal, () => ssm.send(sending, { abortSignal: signal }));
  const asking = new GetCommandInvocationCommand({ CommandId: Command?.CommandId, InstanceId });
  // Ends in any case: Systems Manager gives up on a delivery, and on a script.
  for (;;) {
    await pause({ ssm, ...rest }, signal);
    const answer = await call(op, signal, () => ssm.send(asking, { abortSignal: signal })).catch(notYet);
    switch (answer.Status) {
      case "Success":
        return answer.StandardOutputContent ?? "";
      case "Pending":
      case "InProgress":
      case "Delayed":
        continue;
      default: {
        const reason = answer.StandardErrorContent || `the script ended with ${answer.ResponseCode}`;
        throw new CloudError("CLOUD_FAILED", { op, status: 200, code: answer.StatusDetails, reason });
      }
    }
  }
}

/** A command that was sent just now can be unknown for a moment. */
function notYet(error: unknown): { readonly Status: "Pending" } {
  if (isRefusal(error, "InvocationDoesNotExist")) return { Status: "Pending" };
  throw error;
}
