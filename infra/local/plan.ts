/* What the local services are to bring up, read from the template. */

import type { Assembly } from "./assembly.ts";
import { checkVisibility } from "./compute.ts";
import { type ClusterPlan, planCluster } from "./database.ts";
import type { DeployedTemplate, Resource } from "./deployed-template.ts";
import { LocalError } from "./errors.ts";
import { DEFAULT_CONCURRENCY, type EventSourceSpec } from "./event-sources.ts";
import { checkRoles } from "./iam/checks.ts";
import type { Need, Policies } from "./iam/policies.ts";
import { readPolicies } from "./iam/read-policies.ts";
import { ASYNC_DEFAULTS, type AsyncSettings } from "./lambda/async-invokes.ts";
import { functionName } from "./lambda/invoke-api.ts";
import { type FunctionPlan, planFunctions } from "./plan-functions.ts";
import { rateSeconds, type ScheduleSpec } from "./schedules.ts";
import type { SecretStore } from "./secrets.ts";
import type { Json, JsonObject } from "./template.ts";

const object = (value: Json | undefined) => (value ?? {}) as JsonObject;
const list = (value: Json | undefined) => (value ?? []) as readonly Json[];

/** Refuses properties that would change what happens and that are not done here. */
function refuse(resource: Resource, unsupported: Readonly<Record<string, string>>): void {
  for (const [property, why] of Object.entries(unsupported)) {
    const value = resource.properties[property];
    if (value === undefined) continue;
    throw new LocalError("PROPERTY_UNSUPPORTED", { id: resource.id, property, value: JSON.stringify(value), why });
  }
}

export interface QueuePlan {
  readonly name: string;
  readonly url: string;
  readonly arn: string;
  /** As CreateQueue takes them. */
  readonly attributes: Readonly<Record<string, string>>;
  readonly visibilitySeconds: number;
  /** URL of its dead-letter queue. */
  readonly deadUrl: string | undefined;
}

const QUEUE_ATTRIBUTES: Readonly<Record<string, string>> = {
  DelaySeconds: "DelaySeconds",
  MaximumMessageSize: "MaximumMessageSize",
  MessageRetentionPeriod: "MessageRetentionPeriod",
  ReceiveMessageWaitTimeSeconds: "ReceiveMessageWaitTimeSeconds",
  RedriveAllowPolicy: "RedriveAllowPolicy",
  RedrivePolicy: "RedrivePolicy",
  VisibilityTimeout: "VisibilityTimeout",
};

/** All queues, those that others point to as dead-letter queues first. */
function planQueues(template: DeployedTemplate): readonly QueuePlan[] {
  const queues = template.ofType("AWS::SQS::Queue");
  const urls = new Map(queues.map(({ id }) => [template.valueOf(id, "Arn"), template.valueOf(id)]));
  const plans = queues.map((queue): QueuePlan => {
    refuse(queue, { FifoQueue: "pipelines use standard queues" });
    const attributes: Record<string, string> = {};
    for (const [property, attribute] of Object.entries(QUEUE_ATTRIBUTES)) {
      const value = queue.properties[property];
      if (value !== undefined)
        attributes[attribute] = typeof value === "object" ? JSON.stringify(value) : String(value);
    }
    const deadArn = object(queue.properties["RedrivePolicy"])["deadLetterTargetArn"];
    return {
      name: queue.name,
      url: template.valueOf(queue.id),
      arn: template.valueOf(queue.id, "Arn"),
      attributes,
      visibilitySeconds: Number(queue.properties["VisibilityTimeout"] ?? 30),
      deadUrl: deadArn === undefined ? undefined : urls.get(String(deadArn)),
    };
  });
  return plans.sort((a, b) => Number(a.deadUrl !== undefined) - Number(b.deadUrl !== undefined));
}

export interface EventSourcePlan extends EventSourceSpec {
  readonly functionName: string;
}

/** The event source mappings that are enabled. */
function planEventSources(template: DeployedTemplate, queues: readonly QueuePlan[]): readonly EventSourcePlan[] {
  const mappings = template.ofType("AWS::Lambda::EventSourceMapping");
  return mappings
    .filter(({ properties }) => properties["Enabled"] !== false)
    .map((mapping) => {
      refuse(mapping, {
        FilterCriteria: "messages are not filtered",
        ProvisionedPollerConfig: "pollers scale by concurrency",
      });
      const { properties, id } = mapping;
      const arn = String(properties["EventSourceArn"]);
      const queue = queues.find((each) => each.arn === arn);
      if (!queue) {
        throw new LocalError("PROPERTY_UNSUPPORTED", {
          id,
          property: "EventSourceArn",
          value: arn,
          why: "it is no queue here",
        });
      }
      return {
        functionName: functionName(String(properties["FunctionName"])),
        queue: queue.name,
        queueArn: arn,
        batchSize: Number(properties["BatchSize"] ?? 10),
        windowSeconds: Number(properties["MaximumBatchingWindowInSeconds"] ?? 0),
        concurrency: Number(object(properties["ScalingConfig"])["MaximumConcurrency"] ?? DEFAULT_CONCURRENCY),
        reportsItemFailures: list(properties["FunctionResponseTypes"]).includes("ReportBatchItemFailures"),
        visibilitySeconds: queue.visibilitySeconds,
      };
    });
}

export interface SchedulePlan extends ScheduleSpec {
  readonly functionName: string;
  /** The role that the schedule invokes with; rules need none. */
  readonly role: string | undefined;
}

/** The schedules that are enabled, one entry a target. */
function planSchedules(template: DeployedTemplate): readonly SchedulePlan[] {
  const enabled = ({ properties }: Resource) => properties["State"] !== "DISABLED";
  const plan = (resource: Resource, target: JsonObject): SchedulePlan => ({
    id: resource.id,
    arn: template.valueOf(resource.id, "Arn"),
    everySeconds: rateSeconds(resource.id, String(resource.properties["ScheduleExpression"])),
    input: target["Input"] === undefined ? undefined : String(target["Input"]),
    functionName: targetFunction(resource.id, String(target["Arn"])),
    role: target["RoleArn"] === undefined ? undefined : String(target["RoleArn"]).split("/").at(-1),
  });
  const schedules = template.ofType("AWS::Scheduler::Schedule").filter(enabled);
  const rules = template.ofType("AWS::Events::Rule").filter(enabled);
  for (const rule of rules) refuse(rule, { EventPattern: "there are no events to match" });
  return [
    ...schedules.map((each) => plan(each, object(each.properties["Target"]))),
    ...rules.flatMap((each) => list(each.properties["Targets"]).map((target) => plan(each, object(target)))),
  ];
}

function targetFunction(id: string, arn: string): string {
  if (arn.includes(":function:")) return functionName(arn);
  throw new LocalError("PROPERTY_UNSUPPORTED", {
    id,
    property: "Target",
    value: arn,
    why: "only functions are invoked",
  });
}

export interface TriggerPlan {
  readonly id: string;
  readonly functionName: string;
  /** Name of CDK's own function, as whose role the function is invoked. */
  readonly provider: string;
  readonly need: Need;
}

/** Functions to be invoked while the stack is made. */
function planTriggers(template: DeployedTemplate): readonly TriggerPlan[] {
  return template.ofType("Custom::Trigger").map(({ id, properties }) => {
    const handler = String(properties["HandlerArn"]);
    return {
      id,
      functionName: functionName(handler),
      provider: functionName(String(properties["ServiceToken"])),
      need: { action: "lambda:InvokeFunction", resource: handler },
    };
  });
}

export interface FunctionUrlPlan {
  readonly id: string;
  readonly functionName: string;
  /** It asks for no signature. */
  readonly isOpen: boolean;
}

/** Function URLs. Their own address is not known yet when they are read. */
function planFunctionUrls(template: DeployedTemplate): readonly FunctionUrlPlan[] {
  return template.ofType("AWS::Lambda::Url").map((url) => {
    refuse(url, { Cors: "there is no browser to protect" });
    if (url.properties["InvokeMode"] === "RESPONSE_STREAM") refuse(url, { InvokeMode: "answers are not streamed" });
    const { TargetFunctionArn, AuthType } = url.properties;
    return { id: url.id, functionName: functionName(String(TargetFunctionArn)), isOpen: AuthType === "NONE" };
  });
}

/** How asynchronous invocations of each function are treated. */
function planAsyncSettings(template: DeployedTemplate): ReadonlyMap<string, AsyncSettings> {
  const settings = new Map<string, AsyncSettings>();
  for (const { properties } of template.ofType("AWS::Lambda::EventInvokeConfig")) {
    settings.set(functionName(String(properties["FunctionName"])), {
      maxRetries: Number(properties["MaximumRetryAttempts"] ?? ASYNC_DEFAULTS.maxRetries),
      maxAgeSeconds: Number(properties["MaximumEventAgeInSeconds"] ?? ASYNC_DEFAULTS.maxAgeSeconds),
    });
  }
  return settings;
}

/** All of it. */
export interface StackPlan {
  readonly cluster: ClusterPlan;
  readonly queues: readonly QueuePlan[];
  readonly functions: readonly FunctionPlan[];
  readonly policies: Policies;
  readonly sources: readonly EventSourcePlan[];
  readonly schedules: readonly SchedulePlan[];
  readonly triggers: readonly TriggerPlan[];
  readonly functionUrls: readonly FunctionUrlPlan[];
  readonly asyncSettings: ReadonlyMap<string, AsyncSettings>;
}

/** Reads the whole plan and refuses what AWS would refuse. */
export function planStack(
  template: DeployedTemplate,
  at: { assembly: Assembly; secrets: SecretStore; awsEndpoint: string; databasePort: number },
): StackPlan {
  const queues = planQueues(template);
  const plan: StackPlan = {
    cluster: planCluster(template, at.secrets, at.databasePort),
    queues,
    functions: planFunctions(template, at.assembly, at.awsEndpoint),
    policies: readPolicies(template),
    sources: planEventSources(template, queues),
    schedules: planSchedules(template),
    triggers: planTriggers(template),
    functionUrls: planFunctionUrls(template),
    asyncSettings: planAsyncSettings(template),
  };
  checkVisibility(plan.functions, plan.sources);
  checkRoles(plan.policies, plan);
  return plan;
}
