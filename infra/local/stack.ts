/* The whole stack on one machine: what CDK synthesizes, brought up part by part and taken down in reverse. */

import { rmSync } from "node:fs";
import { prepareDatabase } from "./database.ts";
import { describeStack } from "./describe-stack.ts";
import { startEventSource } from "./event-sources.ts";
import { type Foundation, layFoundation } from "./foundation.ts";
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
  /** Ends everything; the second call waits for the first. */
  stop(): Promise<void>;
}

/** Brings the stack up. On an error everything started is ended again. */
export async function startStack(options: StackOptions): Promise<Stack> {
  const state = await StateFolder.take(options.stateDir);
  const cleanUp = new AsyncDisposableStack();
  cleanUp.defer(() => state.release());
  try {
    const local = await bringUp(options, state, cleanUp);
    state.publish(local);
    let stopping: Promise<void> | undefined;
    return {
      local,
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

async function bringUp(options: StackOptions, state: StateFolder, cleanUp: AsyncDisposableStack): Promise<Local> {
  const { progress, signal } = options;
  if (options.reset) await reset(state);
  const foundation = await layFoundation(options, state, cleanUp);
  signal?.throwIfAborted();
  const { plan, postgres } = foundation;
  await progress.step("preparing the database", () => prepareDatabase(postgres, plan.cluster));
  const running = await startServices(foundation, options, state, cleanUp);
  void warmUp(foundation, running);
  for (const { id, functionName } of plan.triggers) {
    await progress.step(`trigger ${functionName}`, () => runTrigger(id, running.compute.find(functionName)));
    signal?.throwIfAborted();
  }
  startInvokers(foundation, running, cleanUp);
  return describeStack(foundation, running);
}

/** Functions that somebody waits for load one after the other while the database is migrated. */
async function warmUp({ plan }: Foundation, { compute }: RunningServices): Promise<void> {
  const names = [...plan.functionUrls, ...plan.sources].map(({ functionName }) => functionName);
  for (const name of new Set(names)) await compute.find(name).warm();
}

function startInvokers({ plan }: Foundation, { compute, sqs }: RunningServices, cleanUp: AsyncDisposableStack): void {
  for (const source of plan.sources) {
    const poller = startEventSource(source, compute.find(source.functionName), sqs);
    cleanUp.defer(() => poller.close());
  }
  for (const schedule of plan.schedules) {
    cleanUp.defer(startSchedule(schedule, compute.find(schedule.functionName), compute.asyncInvokes));
  }
  // Taken down first: the pollers then get their batches back at once.
  cleanUp.defer(() => {
    for (const fn of compute.functions.values()) fn.stop();
  });
}

async function reset(state: StateFolder): Promise<void> {
  rmSync(await placeFor(state.path("postgres"), serverAccount()), { recursive: true, force: true });
  state.reset();
}
