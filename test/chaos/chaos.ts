/* One run: a stack of its own, load and faults for a while, then convergence, and what must hold. */

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { seededRandom } from "../stress/random.ts";
import { createTally, type Tally } from "../stress/tally.ts";
import { type LocalStack, startLocalStack } from "../support/stack.ts";
import { type Check, checkCommands, checkEvents, checkFleets, checkJobs, checkVolumes } from "./checks.ts";
import { adopt, type Convergence, comeToRest, converge } from "./converge.ts";
import { type FaultParts, inject, stopFaults } from "./faults.ts";
import { type LoadParts, load } from "./load.ts";
import { checkCloud, checkDeadLetters, checkLedger, checkOrphans } from "./outside-checks.ts";
import { type Kills, recoveries } from "./recovery.ts";
import { noWants, type Wants } from "./wants.ts";

export interface ChaosOptions {
  /** Of load and faults together. */
  readonly seconds: number;
  readonly seed: number;
  /** Within which everything must come about after the last fault. */
  readonly boundSeconds: number;
  /** Longest freeze and longest delay, in seconds. */
  readonly longestSeconds: number;
  /** Also calls of the database that are never answered. */
  readonly hangs: boolean;
  /** The cloud assembly to run. */
  readonly assembly: string;
  /** Ends the faults early; what follows is done all the same. */
  readonly signal: AbortSignal;
  progress(line: string): void;
}

export interface ChaosReport {
  readonly checks: readonly Check[];
  readonly faults: Tally;
  readonly requests: Tally;
  /** What the engine reported, by event. */
  readonly events: Tally;
  readonly recoverySeconds: readonly number[];
  readonly databaseSeconds: readonly number[];
  readonly convergence: Convergence;
  /** Kept for whoever looks into what went wrong; undefined when all is well. */
  readonly stateDir: string | undefined;
}

const PROGRESS_MS = 10_000;
/** At least one pass in so many seconds must have been applied. */
const LEAST_EVERY_SECONDS = 4;

/** Runs it. Rejects only where the stack cannot be started or stopped; what does not hold is in the report. */
export async function chaos(options: ChaosOptions): Promise<ChaosReport> {
  const stateDir = mkdtempSync(join(tmpdir(), "millrace-chaos-"));
  const { assembly, progress } = options;
  // a group of its own: Ctrl-C is for us, who still need the stack for the checks
  const stack = await startLocalStack({ stateDir, assembly, detached: true });
  let passed = false;
  try {
    progress(`the stack runs in ${stateDir}`);
    const report = await onStack(options, stack);
    passed = report.checks.every(({ wrong }) => wrong.length === 0);
    return { ...report, stateDir: passed ? undefined : stateDir };
  } finally {
    if (passed) await stack.stop();
    else await stack.kill("SIGTERM");
    if (passed) rmSync(stateDir, { recursive: true, force: true });
  }
}

async function onStack(options: ChaosOptions, stack: LocalStack): Promise<Omit<ChaosReport, "stateDir">> {
  const { seed, seconds, boundSeconds, progress } = options;
  const wants = noWants();
  const kills: Kills = { rows: [] };
  const ranDir = join(stack.stateDir, "ran");
  mkdirSync(ranDir);
  const requests = createTally();
  const faults = createTally();
  const loadParts: LoadParts = { stack, random: seededRandom(seed), wants, tally: requests, ranDir };
  const databaseSeconds: number[] = [];
  const { hangs, longestSeconds } = options;
  const faultParts: FaultParts = {
    stack,
    random: seededRandom(seed + 1),
    wants,
    faults,
    kills,
    databaseSeconds,
    hangs,
    longestSeconds,
  };

  const over = AbortSignal.any([options.signal, AbortSignal.timeout(seconds * 1000)]);
  const from = performance.now();
  const telling = tell(options, wants, faults, over);
  await Promise.all([load(loadParts, over), inject(faultParts, over).finally(() => stopFaults(faultParts)), telling]);
  const lasted = (performance.now() - from) / 1000;
  progress(`faults are over; waiting at most ${boundSeconds} s for everything to come about`);
  await adopt(stack, wants);
  const convergence = await converge(loadParts, boundSeconds);
  progress(
    `${convergence.pending.length === 0 ? "converged" : "did not converge"} in ${convergence.seconds.toFixed(1)} s`,
  );
  const held = await comeToRest(stack);
  await adopt(stack, wants);
  const events = eventsOf(stack);
  const checks = [
    checkBusy(events, lasted),
    ...(await allChecks(stack, wants, convergence, held, ranDir, boundSeconds)),
  ];
  const recoverySeconds = recoveries(stack, kills);
  return { checks, faults, requests, events, recoverySeconds, databaseSeconds, convergence };
}

/** On a machine that has no time for us nothing goes on, and nothing is proved. */
function checkBusy(events: Tally, seconds: number): Check {
  const [applied, least] = [events.of("item.applied"), Math.floor(seconds / LEAST_EVERY_SECONDS)];
  return {
    name: "something was going on",
    wrong: applied >= least ? [] : [`${applied} passes were applied in ${seconds.toFixed(0)} s, fewer than ${least}`],
  };
}

/** What must hold of everything that was asked for, when all has come to rest. */
export async function allChecks(
  stack: LocalStack,
  wants: Wants,
  { pending }: Convergence,
  held: readonly string[],
  ranDir: string,
  boundSeconds: number,
): Promise<readonly Check[]> {
  return [
    { name: `everything came about within ${boundSeconds} s`, wrong: pending },
    { name: "nothing is held, nothing in flight", wrong: held },
    await checkVolumes(stack, wants),
    await checkFleets(stack, wants),
    await checkJobs(stack, wants),
    await checkCommands(stack, wants, ranDir),
    await checkEvents(stack),
    await checkLedger(stack, wants),
    await checkCloud(stack),
    await checkOrphans(stack),
    await checkDeadLetters(stack),
    { name: "no request was answered in a way that no fault explains", wrong: wants.surprises },
  ];
}

async function tell(
  { progress, seconds }: ChaosOptions,
  wants: Wants,
  faults: Tally,
  over: AbortSignal,
): Promise<void> {
  const from = performance.now();
  while (!over.aborted) {
    await wait(PROGRESS_MS, undefined, { signal: over }).catch(() => {});
    const at = ((performance.now() - from) / 1000).toFixed(0);
    const { volumes, fleets, jobs } = wants;
    progress(
      `${at} of ${seconds} s: ${faults.sum("")} faults, ${volumes.length} volumes, ${fleets.length} fleets, ${jobs.length} jobs`,
    );
  }
}

/** How often each event stands in the logs; for a stale one also in which phase. */
function eventsOf(stack: LocalStack): Tally {
  const tally = createTally();
  for (const name of Object.keys(stack.local.functions))
    for (const { message, phase, count } of stack.logs(name)) {
      if (typeof message !== "string" || !/^[a-z]+\.[a-z]+$/.test(message)) continue;
      tally.add(phase === undefined ? message : `${message} (${phase})`, typeof count === "number" ? count : 1);
    }
  return tally;
}
