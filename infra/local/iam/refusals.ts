/* What is said of a call that is refused: to its caller in AWS's words, to the developer with what is missing. */

import { type AwsAnswer, awsError } from "../aws-answer.ts";
import { LocalError } from "../errors.ts";
import { sqsError } from "../sqs/backend.ts";
import type { Need, Reason } from "./policies.ts";
import { type Caller, sessionArn } from "./principals.ts";

/** A call that was refused. */
export interface Refusal {
  readonly caller: Caller;
  readonly need: Need;
  readonly reason: Reason;
  /** Logical id of the resource, if the template has it. */
  readonly name: string | undefined;
}

const BECAUSE: Readonly<Record<Reason, (action: string) => string>> = {
  noPermission: (action) => `because no identity-based policy allows the ${action} action`,
  deniedByRole: () => "with an explicit deny in an identity-based policy",
  deniedByResource: () => "with an explicit deny in a resource-based policy",
};

function callerName(caller: Caller): string {
  if (caller === "anonymous") return "anonymous";
  return "service" in caller ? caller.service : sessionArn(caller);
}

/** What AWS says to the caller. SQS names its actions in lower case. */
function deniedMessage({ caller, need, reason }: Refusal): string {
  const action = need.action.startsWith("sqs:") ? need.action.toLowerCase() : need.action;
  const who = `User: ${callerName(caller)} is not authorized to perform: ${action}`;
  return `${who} on resource: ${need.resource} ${BECAUSE[reason](action)}`;
}

/** The answer of a service that refuses a call: each has its own status and name for it. */
export function deniedAnswer(service: string, refusal: Refusal): AwsAnswer {
  const message = deniedMessage(refusal);
  if (service === "sqs") return sqsError("AccessDenied", message, 403);
  return awsError(service === "secretsmanager" ? 400 : 403, "AccessDeniedException", message);
}

/** The statement that is missing, ready for a policy. */
export function missingStatement({ action, resource }: Need): string {
  return JSON.stringify({ Effect: "Allow", Action: action, Resource: resource.replace(/:log-stream:.*$/, ":*") });
}

const WHY: Readonly<Record<Reason, string>> = {
  noPermission: "no policy allows it",
  deniedByRole: "a policy of the role denies it",
  deniedByResource: "the policy of the resource denies it",
};

/** All that a developer wants to know of a refusal, as parts of ACCESS_DENIED. */
function describeRefusal({ caller, need, reason, name }: Refusal): Readonly<Record<string, string>> {
  const isRole = caller !== "anonymous" && "role" in caller;
  return {
    who: isRole ? `${caller.session} (role ${caller.role})` : callerName(caller),
    action: need.action,
    resource: need.resource + (name === undefined ? "" : ` (${name} in the template)`),
    why: WHY[reason],
    advice: reason === "noPermission" ? `The missing statement: ${missingStatement(need)}` : "Take the denial away",
  };
}

/** The refusal as an error: ACCESS_DENIED. */
export function refusalError(refusal: Refusal, options?: ErrorOptions): LocalError {
  return new LocalError("ACCESS_DENIED", describeRefusal(refusal), options);
}
