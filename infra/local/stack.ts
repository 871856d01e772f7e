/* The whole stack on one machine: what CDK synthesizes, brought up part by part and taken down in reverse. */

import { rmSync } from "node:fs";
import { prepareDatabase } from "./database.ts";
import { describeStack } from "./describe-stack.ts";
import { LocalError } from "./errors.ts";
import { startEventSource } from "./event-sources.ts";
import { type Foundation, layFoundation } from "./foundation.ts";
import { scheduleCall } from "./iam/checks.ts";
import { queueAsRole } from "./iam/queue-as-role.ts";
import { refusalError } from "./iam/refusals.ts";
import type { StackPlan } from "./plan.ts";
import type { FunctionPlan } from "./plan-functions.ts";
import { serverAccount } from "./postgres/account.ts";
import { placeFor } from "./postgres/data-directory.ts";
import type { Progress } from "./progress.ts";
import { type RunningServices, startServices } from "./running-services.ts";
import { startSchedule } from "./schedules.ts";
import { type Local, StateFolder } from "./state.ts";
import { runTrigger } from "./triggers.ts";

export interface StackOptions {
  readonly stateDir: string;
  /** For the AWS services; 0 is any free port. */
  readonly port: number;
  readonly databasePort: number;
  /** For the API's function URL. */
  readonly apiPort: number;
  /** An assembly to run instead of synthesizing the app. */
  readonly assembly?: string | undefined;
  /** Begin with a fresh database. */
  readonly reset: boolean;
  /** Name what is left out. */
  readonly verbose: boolean;
  readonly progress: Progress;
  /** Gives the start up; everything started is ended again. */
  readonly signal?: AbortSignal;
}

export interface Stack {
  readonly local: Local;
  /** The first call that a role did not allow, as ACCESS_DENIED; undefined when there was none. */
  refused(): LocalError | undefined;
  /** Ends everything; the second call waits for the first. */
  stop(): Promise<void>;
}

/** Brings the stack up. On an error everything started is ended again. */
export async function startStack(options: StackOptions): Promise<Stack> {
  const state = await StateFolder.take(options.stateDir);
  const cleanUp = new AsyncDisposableStack();
  cleanUp.defer(() => state.release());
  try {
    const { local, refused } = await bringUp(options, state, cleanUp);
    state.publish(local);
    let stopping: Promise<void> | undefined;
    return {
      local,
      refused,
      stop() {
        state.withdraw();
        stopping ??= cleanUp.disposeAsync();
        return stopping;
      },
    };
  } catch (error) {
    await cleanUp.disposeAsync();
    throw error;
  }
}

async function bringUp(
  options: StackOptions,
  state: StateFolder,
  cleanUp: AsyncDisposableStack,
): Promise<Pick<Stack, "local" | "refused">> {
  const { progress, signal } = options;
  if (options.reset) await reset(state);
  const foundation = await layFoundation(options, state, cleanUp);
  signal?.throwIfAborted();
  const { plan, postgres, access } = foundation;
  await progress.step("preparing the database", () => prepareDatabase(postgres, plan.cluster));
  const running = await startServices(foundation, options, state, cleanUp);
  void warmUp(foundation, running);
  const refused = () => access.refused && refusalError(access.refused);
  for (const { id, functionName, provider, need } of plan.triggers) {
    access.must(find(plan, provider).identity, need);
    await progress.step(`trigger ${functionName}`, () =>
      runTrigger(id, running.compute.find(functionName)).catch((cause: unknown) => {
        // a permission that is missing says more than what came of it
        throw access.refused ? refusalError(access.refused, { cause }) : cause;
      }),
    );
    signal?.throwIfAborted();
  }
  startInvokers(foundation, running, cleanUp);
  return { local: describeStack(foundation, running), refused };
}

/** Functions that somebody waits for load one after the other while the database is migrated. */
async function warmUp({ plan }: Foundation, { compute }: RunningServices): Promise<void> {
  const names = [...plan.functionUrls, ...plan.sources].map(({ functionName }) => functionName);
  for (const name of new Set(names)) await compute.find(name).warm();
}

function startInvokers(foundation: Foundation, { compute, sqs }: RunningServices, cleanUp: AsyncDisposableStack): void {
  const { plan, access } = foundation;
  for (const source of plan.sources) {
    const { identity } = find(plan, source.functionName);
    const queue = queueAsRole(sqs, source.queueArn, access, identity);
    const poller = startEventSource(source, compute.find(source.functionName), queue);
    cleanUp.defer(() => poller.close());
  }
  for (const schedule of plan.schedules) {
    const fn = compute.find(schedule.functionName);
    const { caller, need } = scheduleCall(schedule, fn.spec.arn);
    cleanUp.defer(startSchedule(schedule, fn, compute.asyncInvokes, () => access.must(caller, need)));
  }
  // Taken down first: the pollers then get their batches back at once.
  cleanUp.defer(() => {
    for (const fn of compute.functions.values()) fn.stop();
  });
}

/** The plan of a function that the plan itself names. */
function find({ functions }: StackPlan, name: string): FunctionPlan {
  const plan = functions.find(({ spec }) => spec.name === name);
  if (plan) return plan;
  throw new LocalError("NOT_FOUND", {
    what: "function",
    name,
    known: functions.map(({ spec }) => spec.name).join(", "),
  });
}

async function reset(state: StateFolder): Promise<void> {
  rmSync(await placeFor(state.path("postgres"), serverAccount()), { recursive: true, force: true });
  state.reset();
}
