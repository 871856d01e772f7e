/* The functions of a stack, as the other parts see them. */

import { join } from "node:path";
import type { Caller } from "./aws-endpoint.ts";
import { LocalError } from "./errors.ts";
import type { Roles } from "./iam.ts";
import { ASYNC_DEFAULTS, AsyncInvokes, type AsyncSettings } from "./lambda/async-invokes.ts";
import { openFunctionLog } from "./lambda/function-log.ts";
import { LambdaFunction } from "./lambda/lambda-function.ts";
import type { EventSourcePlan, SchedulePlan } from "./plan.ts";
import type { FunctionPlan } from "./plan-functions.ts";
import type { StateFolder } from "./state.ts";

export interface Compute {
  readonly functions: ReadonlyMap<string, LambdaFunction>;
  readonly asyncInvokes: AsyncInvokes;
  /** A function by name. Throws NOT_FOUND. */
  find(name: string): LambdaFunction;
  caller(accessKeyId: string): Caller | undefined;
  /** Kills one sandbox, whichever function it belongs to. */
  killSandbox(sandboxId: string): void;
  close(): Promise<void>;
}

export interface ComputeOptions {
  readonly plans: readonly FunctionPlan[];
  readonly asyncSettings: ReadonlyMap<string, AsyncSettings>;
  readonly state: StateFolder;
  /** Base URL of the local cloud; each sandbox gets an address of its own below it. */
  readonly cloudUrl: string;
}

/** Makes the functions; none has a process yet. */
export function createCompute({ plans, asyncSettings, state, cloudUrl }: ComputeOptions): Compute {
  const functions = new Map<string, LambdaFunction>();
  const callers = new Map<string, Caller>();
  for (const { spec, identity } of plans) {
    callers.set(identity.accessKeyId, identity);
    const log = openFunctionLog(join(state.dir, "logs", `${spec.name}.log`));
    const environment = (sandboxId: string) => ({
      AWS_LAMBDA_LOG_STREAM_NAME: `local/[$LATEST]${sandboxId}`,
      MILLRACE_CLOUD_URL: `${cloudUrl}/as/${sandboxId}`,
    });
    const started = (pid: number) => state.processes.add(pid, `sandbox ${spec.name}`);
    functions.set(spec.name, new LambdaFunction({ spec, log, environment, started }));
  }
  const asyncInvokes = new AsyncInvokes((fn) => asyncSettings.get(fn.spec.name) ?? ASYNC_DEFAULTS);
  return {
    functions,
    asyncInvokes,
    find(name) {
      const fn = functions.get(name);
      if (fn) return fn;
      throw new LocalError("NOT_FOUND", { what: "function", name, known: [...functions.keys()].join(", ") });
    },
    caller: (accessKeyId) => callers.get(accessKeyId),
    killSandbox: (sandboxId) => {
      for (const fn of functions.values()) fn.kill(sandboxId);
    },
    async close() {
      asyncInvokes.close();
      await Promise.all([...functions.values()].map((fn) => fn.close()));
    },
  };
}

const POLLING = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"] as const;

/** Refuses what AWS would refuse when it makes mappings and schedules: roles that do not allow them. */
export function checkInvokers(
  roles: Roles,
  plans: readonly FunctionPlan[],
  sources: readonly EventSourcePlan[],
  schedules: readonly SchedulePlan[],
): void {
  const plan = (name: string) => plans.find(({ spec }) => spec.name === name);
  const need = (role: string, action: string, resource: string, what: string) => {
    if (!roles.allows(role, action, resource))
      throw new LocalError("ROLE_LACKS_PERMISSION", { role, action, resource, what });
  };
  for (const source of sources) {
    const fn = plan(source.functionName);
    for (const action of POLLING)
      need(fn?.identity.role ?? "nobody", action, source.queueArn, "the event source mapping");
    if (!fn || fn.spec.timeoutSeconds <= source.visibilitySeconds) continue;
    const why = `AWS refuses less than the function's timeout of ${fn.spec.timeoutSeconds} s`;
    const value = `${source.visibilitySeconds} s`;
    throw new LocalError("PROPERTY_UNSUPPORTED", { id: source.queue, property: "VisibilityTimeout", value, why });
  }
  for (const { role, functionName, id } of schedules) {
    const arn = plan(functionName)?.spec.arn ?? functionName;
    if (role !== undefined) need(role, "lambda:InvokeFunction", arn, `schedule ${id}`);
  }
}
