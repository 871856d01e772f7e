/* One run: a stack of its own, a load that must come about, and bad input to every queue and route meanwhile. */

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { allChecks } from "../chaos/chaos.ts";
import type { Check } from "../chaos/checks.ts";
import { adopt, comeToRest, converge } from "../chaos/converge.ts";
import { type LoadParts, load } from "../chaos/load.ts";
import { noWants, type Wants } from "../chaos/wants.ts";
import { seededRandom } from "../stress/random.ts";
import { createTally, type Tally } from "../stress/tally.ts";
import { type LocalStack, startLocalStack } from "../support/stack.ts";
import { checkAlive, checkDrained, checkInvocations, refusedMessages } from "./checks.ts";
import { knownOn } from "./known.ts";
import { makeFirst, unmake } from "./made.ts";
import { createOutcomes, type Target } from "./outcomes.ts";
import { strangeRoute } from "./requests.ts";
import { queueTarget, sendMessages } from "./send-messages.ts";
import { type SendParts, sendRequests } from "./send-requests.ts";

export interface FuzzOptions {
  /** Messages to each queue, and requests to each route. */
  readonly count: number;
  readonly seed: number;
  /** Within which all that was asked for must come about after the last of them. */
  readonly boundSeconds: number;
  /** Ends the run without its checks. */
  readonly signal: AbortSignal;
  progress(line: string): void;
}

export interface FuzzReport {
  readonly checks: readonly Check[];
  readonly targets: readonly Target[];
  /** Requests of the load, by answer. */
  readonly requests: Tally;
  readonly sendSeconds: number;
  /** Kept for whoever looks into what went wrong; undefined when all is well. */
  readonly stateDir: string | undefined;
}

const PROGRESS_MS = 10_000;
/** Between two requests of the load: most of the machine is for the bad ones. */
const BETWEEN_MS = 1_000;

/** Runs it. Rejects where the stack cannot be started or stopped, and when it is interrupted. */
export async function fuzz(options: FuzzOptions): Promise<FuzzReport> {
  const stateDir = mkdtempSync(join(tmpdir(), "millrace-fuzz-"));
  // a group of its own: Ctrl-C is for us, who stop it in good order
  const stack = await startLocalStack({ stateDir, detached: true });
  let kept = false;
  try {
    options.progress(`the stack runs in ${stateDir}`);
    const report = await onStack(options, stack);
    kept = report.checks.some(({ wrong }) => wrong.length > 0);
    return { ...report, stateDir: kept ? stateDir : undefined };
  } finally {
    if (kept) await stack.kill("SIGTERM");
    else await stack.stop();
    if (!kept) rmSync(stateDir, { recursive: true, force: true });
  }
}

async function onStack(options: FuzzOptions, stack: LocalStack): Promise<Omit<FuzzReport, "stateDir">> {
  const { seed, count, boundSeconds, signal, progress } = options;
  const ranDir = join(stack.stateDir, "ran");
  mkdirSync(ranDir);
  const requests = createTally();
  const loaded = noWants();
  const loadParts: LoadParts = {
    stack,
    random: seededRandom(seed),
    wants: loaded,
    tally: requests,
    ranDir,
    betweenMs: BETWEEN_MS,
  };
  const made = await makeFirst(stack);
  const outcomes = createOutcomes();
  const parts: SendParts = { stack, seed, count, known: knownOn(stack, made), made, outcomes, signal };

  const from = performance.now();
  const seconds = () => (performance.now() - from) / 1000;
  const telling = setInterval(() => {
    const sent = outcomes.all().reduce((sum, target) => sum + target.sent, 0);
    progress(`${seconds().toFixed(0)} s: ${sent} sent`);
  }, PROGRESS_MS);
  const over = new AbortController();
  const loading = load(loadParts, AbortSignal.any([over.signal, signal]));
  await Promise.all([sendRequests(parts), sendMessages(parts)]).finally(() => {
    clearInterval(telling);
    over.abort();
  });
  await loading;
  signal.throwIfAborted();
  const sendSeconds = seconds();
  progress(`all is sent; waiting at most ${boundSeconds} s for everything to come about`);
  const { wants, refused } = await unmake(stack, made);
  await adopt(stack, loaded);
  const convergence = await converge(loadParts, boundSeconds);
  const held = await comeToRest(stack);
  // not before: jobs that wait for a place are looked at again and again
  const drained = await checkDrained(stack);
  countRefusedMessages(stack, outcomes.all());
  const checks = [
    { name: "no request was answered with 5xx, or refused without a code", wrong: [...outcomes.wrong, ...refused] },
    drained,
    checkInvocations(stack),
    ...(await allChecks(stack, both(loaded, wants), convergence, held, ranDir, boundSeconds)),
    await checkAlive(stack),
    checkVaried(outcomes.all()),
  ];
  return { checks, targets: outcomes.all(), requests, sendSeconds };
}

const both = (one: Wants, other: Wants): Wants => ({
  volumes: [...one.volumes, ...other.volumes],
  fleets: [...one.fleets, ...other.fleets],
  jobs: [...one.jobs, ...other.jobs],
  surprises: [...one.surprises, ...other.surprises],
  killedInstances: one.killedInstances,
});

/** What workers and the fetcher refused of the messages that a queue took. */
function countRefusedMessages(stack: LocalStack, targets: readonly Target[]): void {
  for (const queue of Object.keys(stack.local.queues)) {
    const target = targets.find(({ name }) => name === queueTarget(queue));
    for (const code of refusedMessages(stack, queue === "hints" ? "fetcher" : `worker-${queue}`)) {
      target?.refused.add(code);
      if (target !== undefined) target.accepted--;
    }
  }
}

/** Input of one kind alone would prove nothing. */
function checkVaried(targets: readonly Target[]): Check {
  const wrong = targets
    .filter(({ name, accepted }) => accepted === 0 && name !== strangeRoute.name)
    .map(({ name }) => `${name}: nothing was accepted`);
  if (targets.every(({ refused }) => refused.sum("") === 0)) wrong.push("nothing was refused");
  return { name: "each queue and route has accepted something", wrong };
}
