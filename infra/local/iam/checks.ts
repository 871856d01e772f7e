/* What AWS refuses when a stack is made, or only shows by silence later: roles that cannot do what they are given for. */

import { LocalError } from "../errors.ts";
import type { EventSourcePlan, FunctionUrlPlan, SchedulePlan, TriggerPlan } from "../plan.ts";
import type { FunctionPlan } from "../plan-functions.ts";
import { ACCOUNT_ID, REGION } from "../resource-types.ts";
import type { Need, Policies } from "./policies.ts";
import { type Caller, type RoleCaller, roleArn } from "./principals.ts";
import { missingStatement } from "./refusals.ts";

/** What Lambda does to a queue as the role of the function that reads it. */
export const POLLING = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"] as const;

/** What Lambda does as a function's role to write the log of a sandbox; without a log group of its own it makes one. */
export function logNeeds({ logGroup, ownsLogGroup }: FunctionPlan, stream: string): readonly Need[] {
  const group = `arn:aws:logs:${REGION}:${ACCOUNT_ID}:log-group:${logGroup}`;
  const resource = `${group}:log-stream:${stream}`;
  const writing = [
    { action: "logs:CreateLogStream", resource },
    { action: "logs:PutLogEvents", resource },
  ];
  return ownsLogGroup ? writing : [{ action: "logs:CreateLogGroup", resource: `${group}:log-stream:` }, ...writing];
}

/** What a schedule needs: EventBridge Scheduler works with a role, a rule asks the function's own policy. */
export function scheduleCall({ role, id, arn }: SchedulePlan, functionArn: string): { caller: Caller; need: Need } {
  const need = { action: "lambda:InvokeFunction", resource: functionArn };
  if (role !== undefined) return { caller: { role, session: id }, need };
  const context = { "aws:sourcearn": arn, "aws:sourceaccount": ACCOUNT_ID };
  return { caller: { service: "events.amazonaws.com" }, need: { ...need, context } };
}

/** A call by a function URL that asks for no signature. */
const openUrlNeed = (functionArn: string): Need => ({
  action: "lambda:InvokeFunctionUrl",
  resource: functionArn,
  context: { "lambda:functionurlauthtype": "NONE" },
});

export interface Checked {
  readonly functions: readonly FunctionPlan[];
  readonly sources: readonly EventSourcePlan[];
  readonly schedules: readonly SchedulePlan[];
  readonly triggers: readonly TriggerPlan[];
  readonly functionUrls: readonly FunctionUrlPlan[];
}

/** Throws ROLE_LACKS_PERMISSION for the first permission that is missing. */
export function checkRoles(policies: Policies, plan: Checked): void {
  const need = (caller: Caller, wanted: Need, what: string) => {
    if (policies.judge(caller, wanted).refused === undefined) return;
    const role = caller !== "anonymous" && "role" in caller ? caller.role : JSON.stringify(caller);
    const { action, resource } = wanted;
    const statement = missingStatement(wanted);
    throw new LocalError("ROLE_LACKS_PERMISSION", { role, action, resource, what, statement });
  };
  const mayTake = (service: string, role: string, what: string, context = {}) =>
    need({ service }, { action: "sts:AssumeRole", resource: roleArn(role), context }, what);
  const find = (name: string) => plan.functions.find(({ spec }) => spec.name === name);
  const identity = (name: string): RoleCaller => find(name)?.identity ?? { role: "nobody", session: name };

  for (const fn of plan.functions) {
    mayTake("lambda.amazonaws.com", fn.identity.role, `function ${fn.spec.name}`);
    for (const each of logNeeds(fn, "any")) need(fn.identity, each, `to write the log of ${fn.spec.name}`);
  }
  for (const { functionName, queueArn } of plan.sources) {
    const caller = identity(functionName);
    for (const action of POLLING) need(caller, { action, resource: queueArn }, "the event source mapping");
  }
  for (const schedule of plan.schedules) {
    const call = scheduleCall(schedule, find(schedule.functionName)?.spec.arn ?? schedule.functionName);
    need(call.caller, call.need, `schedule ${schedule.id}`);
    if (schedule.role === undefined) continue;
    // the group stands for all of its schedules
    const group = `arn:aws:scheduler:${REGION}:${ACCOUNT_ID}:schedule-group/default`;
    const context = { "aws:sourceaccount": ACCOUNT_ID, "aws:sourcearn": group };
    mayTake("scheduler.amazonaws.com", schedule.role, `schedule ${schedule.id}`, context);
  }
  for (const { provider, need: wanted, id } of plan.triggers) need(identity(provider), wanted, `trigger ${id}`);
  for (const { id, functionName, isOpen } of plan.functionUrls) {
    const fn = find(functionName);
    if (isOpen && fn) need("anonymous", openUrlNeed(fn.spec.arn), `calls of function URL ${id}`);
  }
}
