/* The functions of a stack, as the other parts see them. */

import { join } from "node:path";
import { LocalError } from "./errors.ts";
import type { Access } from "./iam/access.ts";
import { logNeeds } from "./iam/checks.ts";
import type { RoleCaller } from "./iam/principals.ts";
import { ASYNC_DEFAULTS, AsyncInvokes, type AsyncSettings } from "./lambda/async-invokes.ts";
import { openFunctionLog } from "./lambda/function-log.ts";
import { LambdaFunction } from "./lambda/lambda-function.ts";
import type { EventSourcePlan } from "./plan.ts";
import type { FunctionPlan } from "./plan-functions.ts";
import type { StateFolder } from "./state.ts";

export interface Compute {
  readonly functions: ReadonlyMap<string, LambdaFunction>;
  readonly asyncInvokes: AsyncInvokes;
  /** A function by name. Throws NOT_FOUND. */
  find(name: string): LambdaFunction;
  /** The function that these credentials belong to. */
  caller(accessKeyId: string): RoleCaller | undefined;
  /** Kills one sandbox, whichever function it belongs to. */
  killSandbox(sandboxId: string): void;
  close(): Promise<void>;
}

export interface ComputeOptions {
  readonly plans: readonly FunctionPlan[];
  readonly asyncSettings: ReadonlyMap<string, AsyncSettings>;
  readonly state: StateFolder;
  readonly access: Access;
  /** Base URL of the local cloud; each sandbox gets an address of its own below it. */
  readonly cloudUrl: string;
}

/** Makes the functions; none has a process yet. */
export function createCompute({ plans, asyncSettings, state, access, cloudUrl }: ComputeOptions): Compute {
  const functions = new Map<string, LambdaFunction>();
  const callers = new Map<string, RoleCaller>();
  for (const plan of plans) {
    const { spec, identity } = plan;
    callers.set(identity.accessKeyId, identity);
    const log = openFunctionLog(join(state.dir, "logs", `${spec.name}.log`));
    const environment = (sandboxId: string) => {
      const stream = `local/[$LATEST]${sandboxId}`;
      // its log is written for it, as its role
      for (const need of logNeeds(plan, stream)) access.must(identity, need);
      return { AWS_LAMBDA_LOG_STREAM_NAME: stream, MILLRACE_CLOUD_URL: `${cloudUrl}/as/${sandboxId}` };
    };
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

/** Refuses a mapping whose queue shows a message again while its function may still work on it, as AWS does. */
export function checkVisibility(plans: readonly FunctionPlan[], sources: readonly EventSourcePlan[]): void {
  for (const source of sources) {
    const fn = plans.find(({ spec }) => spec.name === source.functionName);
    if (!fn || fn.spec.timeoutSeconds <= source.visibilitySeconds) continue;
    const why = `AWS refuses less than the function's timeout of ${fn.spec.timeoutSeconds} s`;
    const value = `${source.visibilitySeconds} s`;
    throw new LocalError("PROPERTY_UNSUPPORTED", { id: source.queue, property: "VisibilityTimeout", value, why });
  }
}
