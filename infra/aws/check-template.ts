import { checkConnectionBudget } from "../../lib/index.ts";
import { type Consumer, checkConsumer, checkFunctionTimeout } from "./checks.ts";
import { InfraError } from "./errors.ts";

interface Resource {
  readonly Type: string;
  // biome-ignore lint/suspicious/noExplicitAny: CloudFormation properties have no type of their own here
  readonly Properties?: any;
  readonly Metadata?: Readonly<Record<string, unknown>>;
}

export interface Template {
  readonly Resources: Readonly<Record<string, Resource>>;
}

/**
 * Checks the numbers of a finished template, so that an override of one resource is checked as well.
 * Throws `InfraError`, or the engine's `CONNECTION_BUDGET` with every summand.
 */
export function checkTemplate(template: Template, connectionBudget: number): void {
  checkNames(template);
  for (const [, handler] of named(template, "AWS::Lambda::Function")) {
    checkFunctionTimeout(nameOf(handler), handler.Properties.Timeout);
  }
  for (const mapping of ofType(template, "AWS::Lambda::EventSourceMapping"))
    checkConsumer(readConsumer(template, mapping));
  for (const trigger of ofType(template, "Custom::Trigger")) checkTrigger(template, trigger);
  checkConnectionBudget(
    named(template, "AWS::Lambda::Function").map(([id, handler]) => ({
      name: nameOf(handler),
      concurrency: concurrencyOf(template, id, handler),
      callsInFlight: Number(handler.Properties.Environment.Variables.CALLS_IN_FLIGHT),
    })),
    connectionBudget,
  );
}

function readConsumer(template: Template, mapping: Resource): Consumer {
  const functionId = target(mapping.Properties.FunctionName);
  const handler = find(template, functionId);
  const queue = find(template, target(mapping.Properties.EventSourceArn));
  const redrive = queue.Properties.RedrivePolicy;
  if (redrive === undefined) {
    throw new InfraError("NO_DEAD_LETTERS", `queue ${nameOf(queue)} has no dead-letter queue: give it one`);
  }
  return {
    name: nameOf(queue),
    functionTimeout: handler.Properties.Timeout,
    reservedConcurrency: handler.Properties.ReservedConcurrentExecutions,
    otherCallers: schedulesOf(template, functionId).length,
    maxConcurrency: mapping.Properties.ScalingConfig.MaximumConcurrency,
    batchSize: mapping.Properties.BatchSize,
    window: mapping.Properties.MaximumBatchingWindowInSeconds ?? 0,
    visibility: queue.Properties.VisibilityTimeout,
    retention: queue.Properties.MessageRetentionPeriod,
    receiveCount: redrive.maxReceiveCount,
    deadLetterRetention: find(template, target(redrive.deadLetterTargetArn)).Properties.MessageRetentionPeriod,
  };
}

function checkTrigger(template: Template, trigger: Resource): void {
  const handler = triggered(template, trigger);
  const waits = Number(trigger.Properties.Timeout) / 1000;
  const runs = find(template, handler).Properties.Timeout;
  if (waits >= runs) return;
  throw new InfraError(
    "TRIGGER_TIMEOUT",
    `the deployment waits ${waits} s for ${nameOf(find(template, handler))}, whose own timeout is ${runs} s: wait at least as long`,
  );
}

/** How many of a function may run at once: what it is reserved, else what its event sources and triggers start. */
function concurrencyOf(template: Template, id: string, handler: Resource): number {
  const reserved = handler.Properties.ReservedConcurrentExecutions;
  if (reserved !== undefined) return reserved;
  const mappings = ofType(template, "AWS::Lambda::EventSourceMapping")
    .filter((mapping) => target(mapping.Properties.FunctionName) === id)
    .map((mapping) => mapping.Properties.ScalingConfig.MaximumConcurrency as number);
  const triggers = ofType(template, "Custom::Trigger").filter((trigger) => triggered(template, trigger) === id);
  const sum = mappings.reduce((total, each) => total + each, triggers.length);
  if (sum === 0) {
    throw new InfraError(
      "UNBOUNDED_FUNCTION",
      `${nameOf(handler)} may run any number of times at once: reserve a number`,
    );
  }
  return sum;
}

function checkNames(template: Template): void {
  for (const type of ["AWS::Lambda::Function", "AWS::SQS::Queue"]) {
    const names = named(template, type).map(([, resource]) => nameOf(resource));
    const twice = names.find((name, index) => names.indexOf(name) !== index);
    if (twice === undefined) continue;
    throw new InfraError("DUPLICATE_NAME", `two resources of type ${type} are named "${twice}": rename the pipeline`);
  }
}

const triggered = (template: Template, trigger: Resource) =>
  target(find(template, target(trigger.Properties.HandlerArn)).Properties.FunctionName);

const schedulesOf = (template: Template, functionId: string) =>
  ofType(template, "AWS::Scheduler::Schedule").filter(({ Properties }) => target(Properties.Target.Arn) === functionId);

const ofType = ({ Resources }: Template, type: string) => Object.values(Resources).filter((r) => r.Type === type);

/** Resources of this repository: CDK's own helpers carry no name. */
const named = ({ Resources }: Template, type: string) =>
  Object.entries(Resources).filter(([, r]) => r.Type === type && r.Metadata?.["millrace:name"] !== undefined);

const nameOf = (resource: Resource) => String(resource.Metadata?.["millrace:name"] ?? "without a name");

/** The logical id that `{Ref: id}` or `{Fn::GetAtt: [id, …]}` points to. */
function target(reference: { Ref?: string; "Fn::GetAtt"?: readonly [string, string] }): string {
  return reference.Ref ?? reference["Fn::GetAtt"]?.[0] ?? "";
}

function find({ Resources }: Template, id: string): Resource {
  const resource = Resources[id];
  if (!resource) throw new Error(`the template has no resource "${id}"`);
  return resource;
}
