/* What goes wrong, by chance: processes die or freeze, the database too, and every service answers badly now and then. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { type Random, seededRandom } from "../stress/random.ts";
import type { Tally } from "../stress/tally.ts";
import type { LocalStack } from "../support/stack.ts";
import { type Kills, noteKill } from "./recovery.ts";
import type { Wants } from "./wants.ts";

export interface FaultParts {
  readonly stack: LocalStack;
  readonly random: Random;
  readonly wants: Wants;
  /** Faults by kind. */
  readonly faults: Tally;
  readonly kills: Kills;
  /** Seconds that the database took to come back, besides those that it was kept away. */
  readonly databaseSeconds: number[];
  /** Calls that are never answered take their caller's whole minute: not in a short run. */
  readonly hangs: boolean;
  /** Longest freeze and longest delay, in seconds. */
  readonly longestSeconds: number;
}

/** Between two faults, in ms: about so long. */
const BETWEEN_MS = 1_200;

type Inject = (parts: FaultParts, signal: AbortSignal) => Promise<string | undefined>;

/** What may happen, and how often by comparison. */
const KINDS: readonly (readonly [number, Inject])[] = [
  [18, killWorker],
  [4, killOther("fetcher")],
  [4, killOther("heartbeater")],
  [3, killOther("api")],
  [7, freeze],
  [5, killInstance],
  [5, killDatabase],
  [24, queueFault],
  [24, dataApiFault],
  [11, cloudFault],
];

/** Injects one fault after the other until the signal aborts; resolves when nothing is kept back any more. */
export async function inject(parts: FaultParts, signal: AbortSignal): Promise<void> {
  const { random, faults, wants } = parts;
  const chances = KINDS.flatMap(([weight, kind]) => Array<Inject>(weight).fill(kind));
  const underWay = new Set<Promise<void>>();
  while (!signal.aborted) {
    const kind = random.pick(chances);
    // numbers of its own, so that the choice of the next does not hang on how fast this one is
    const own = seededRandom(random.below(1_000_000_000));
    const doing = kind({ ...parts, random: own }, signal).then(
      (name) => void (name !== undefined && faults.add(name)),
      (error: unknown) => void wants.surprises.push(`a fault could not be made: ${String(error)}`),
    );
    underWay.add(doing);
    void doing.then(() => underWay.delete(doing));
    await wait(BETWEEN_MS * (0.5 + random.next()), undefined, { signal }).catch(() => {});
  }
  await Promise.all(underWay);
}

/** Takes every fault back that has not been spent, and lets everything run. */
export async function stopFaults({ stack }: FaultParts): Promise<void> {
  for (const path of [
    "/data-api/faults",
    "/cloud/faults",
    ...Object.keys(stack.local.queues).map((q) => `/queues/${q}/faults`),
  ])
    await control(stack, "DELETE", path);
  for (const name of Object.keys(stack.local.functions)) await control(stack, "POST", `/functions/${name}/start`);
}

async function control(stack: LocalStack, method: string, path: string, body?: unknown) {
  const answer = await stack.control(method, path, body);
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body;
}

const workers = ({ stack }: FaultParts) =>
  Object.keys(stack.local.functions).filter((name) => name.startsWith("worker-"));

/** What a worker asks of the cloud, where it can be caught in the middle of a pass. */
const ASKS: Readonly<Record<string, readonly string[]>> = {
  "worker-volumes": ["createVolume", "deleteVolume"],
  "worker-instances": ["createInstance", "deleteInstance"],
  "worker-jobs-running": ["attachVolume", "runCommand", "stopCommand"],
  "worker-jobs-terminating": ["detachVolume"],
};
/** A pass is made to take so long, and its worker waited for so long. */
const CAUGHT_SECONDS = 6;

/**
 * A worker function in the middle of a pass that waits for the cloud; or any worker, whatever it does at that moment, as
 * some ask the cloud for nothing and others have nothing to do.
 */
async function caughtWorker(parts: FaultParts, signal: AbortSignal): Promise<string> {
  const { stack, random } = parts;
  const name = random.percent(80) ? random.pick(Object.keys(ASKS)) : random.pick(workers(parts));
  const op = random.pick(ASKS[name] ?? [""]);
  const after = random.next() * 2;
  if (op === "") return name;
  await control(stack, "POST", "/cloud/faults", { match: op, kind: "delay", seconds: CAUGHT_SECONDS, count: 2 });
  const until = performance.now() + CAUGHT_SECONDS * 1000;
  while (!signal.aborted && performance.now() < until && !(await isProcessing(stack, name, after))) await wait(100);
  return name;
}

async function killWorker(parts: FaultParts, signal: AbortSignal): Promise<string | undefined> {
  const { stack, kills } = parts;
  const name = await caughtWorker(parts, signal);
  const { pids } = await control(stack, "POST", `/functions/${name}/kill`);
  await noteKill(stack, kills, name);
  return pids.length > 0 ? "kill worker" : undefined;
}

/** Whether a pass of the worker has gone on for so long. */
async function isProcessing(stack: LocalStack, functionName: string, seconds: number): Promise<boolean> {
  const rows = await stack
    .sql(
      `select 1 from millrace.items where pipeline = $1 and state = 'processing' and finished_at is null
       and claimed_at < now() - make_interval(secs => $2)`,
      [functionName.replace("worker-", ""), seconds],
    )
    .catch(() => []);
  return rows.length > 0;
}

function killOther(name: string): Inject {
  return async ({ stack }) => {
    const { pids } = await control(stack, "POST", `/functions/${name}/kill`);
    return pids.length > 0 ? `kill ${name}` : undefined;
  };
}

async function freeze(parts: FaultParts, signal: AbortSignal): Promise<string | undefined> {
  const { stack, random, longestSeconds } = parts;
  const name = random.percent(80) ? await caughtWorker(parts, signal) : random.pick(["fetcher", "heartbeater"]);
  // half of them wake up in time, the others find that somebody else went on
  const seconds = random.percent(50) ? 1 + random.next() * 8 : longestSeconds * (0.7 + 0.3 * random.next());
  const { pids } = await control(stack, "POST", `/functions/${name}/freeze`);
  await wait(seconds * 1000, undefined, { signal }).catch(() => {});
  await control(stack, "POST", `/functions/${name}/start`);
  return pids.length > 0 ? "freeze" : undefined;
}

/** The process that is an instance, and with it what runs there. */
async function killInstance({ stack, random, wants }: FaultParts): Promise<string | undefined> {
  const dir = join(stack.stateDir, "cloud", "instances");
  const files = readdirSync(dir).sort();
  if (files.length === 0) return undefined;
  const id = random.pick(files);
  try {
    const { pid } = JSON.parse(readFileSync(join(dir, id, "agent.json"), "utf8")) as { pid: number };
    process.kill(pid, "SIGKILL");
  } catch {
    return undefined; // gone meanwhile, or not up yet
  }
  wants.killedInstances.add(id);
  return "kill instance";
}

async function killDatabase({ stack, random, databaseSeconds }: FaultParts): Promise<string> {
  const how = random.pick(["kill", "immediate"]);
  const seconds = random.pick([0, 0, 1, 4]);
  const { awaySeconds } = await control(stack, "POST", "/database/kill", { how, seconds });
  databaseSeconds.push(awaySeconds - seconds);
  return `database: ${how}`;
}

async function queueFault({ stack, random, longestSeconds }: FaultParts): Promise<string> {
  const queue = random.pick(Object.keys(stack.local.queues));
  const kind = random.pick(["drop", "drop", "duplicate", "duplicate", "delay", "refuse", "reorder"]);
  const seconds = kind === "delay" ? random.next() * longestSeconds : random.next() * 5;
  await control(stack, "POST", `/queues/${queue}/faults`, { kind, count: 1 + random.below(3), seconds });
  return `queue: ${kind}`;
}

const STATEMENTS = [
  "millrace:claim",
  "millrace:apply",
  "millrace:apply",
  "millrace:fetch",
  "millrace:lock",
  "millrace:renew",
  "millrace:heartbeat",
  "millrace:",
];

/** Name, kind, code. Of the codes some say for certain that nothing was done, and some do not. */
const ANSWERS = [
  ["lostAnswer", {}],
  ["lostAnswer", {}],
  ["lostAnswer", {}],
  ["error", { code: "40P01" }],
  ["error", { code: "40001" }],
  ["error", { code: "ThrottlingException" }],
  ["error", { code: "ServiceUnavailableError" }],
  ["error", { code: "InternalServerErrorException" }],
  ["error", { code: "InternalFailure" }],
  ["resuming", {}],
  ["unavailable", {}],
  ["delay", {}],
] as const;

async function dataApiFault({ stack, random, hangs, longestSeconds }: FaultParts): Promise<string> {
  const [kind, more] = hangs && random.percent(3) ? (["hang", {}] as const) : random.pick(ANSWERS);
  const match = random.percent(70) ? random.pick(STATEMENTS) : "";
  const seconds = random.next() * Math.min(8, longestSeconds);
  const count = kind === "hang" ? 1 : 1 + random.below(3);
  await control(stack, "POST", "/data-api/faults", { kind, match, count, seconds, ...more });
  return `Data API: ${"code" in more ? more.code : kind}`;
}

const OPERATIONS = [
  "createVolume",
  "deleteVolume",
  "createInstance",
  "deleteInstance",
  "attachVolume",
  "detachVolume",
  "runCommand",
  "stopCommand",
  null,
];

async function cloudFault({ stack, random, longestSeconds }: FaultParts): Promise<string> {
  const kind = random.pick(["delay", "delay", "fail", "killCaller"]);
  const seconds = kind === "delay" ? random.next() * Math.min(20, longestSeconds) : 0;
  await control(stack, "POST", "/cloud/faults", {
    match: random.pick(OPERATIONS),
    kind,
    seconds,
    count: 1 + random.below(2),
  });
  return `cloud: ${kind}`;
}
