import { MillraceError } from "../errors.ts";

export interface Backoff {
  /** Delay after the first failure. @default 1 */
  readonly firstSeconds: number;
  /** Each further failure waits this many times longer. @default 2 */
  readonly factor: number;
  /** Longest delay. @default 300 */
  readonly maxSeconds: number;
  /** Share by which a delay varies up and down. @default 0.2 */
  readonly jitter: number;
}

export interface PipelineOptions {
  /** Items in process at once. @default 10 */
  readonly workers?: number;
  /** Messages a worker takes at once; lowered where `workers` is too small for it. @default 10 */
  readonly batchSize?: number;
  /** How long a lock outlives its last extension. @default 30 */
  readonly lockTimeoutSeconds?: number;
  /** How long a worker that stops renewing still counts as alive; it renews every third of it. @default 20 */
  readonly leaseSeconds?: number;
  /** The heartbeater looks this often while anything is in flight; the shortest of all pipelines counts. @default 10 */
  readonly heartbeatTickSeconds?: number;
  /** A heartbeat extends locks that would expire within this time. @default 15 */
  readonly heartbeatTriggerSeconds?: number;
  /** Longest time for one item. @default 60 */
  readonly processTimeoutSeconds?: number;
  /** Below workers × this many waiting items, finished work asks for the next fetch. @default 0.5 */
  readonly queueLowerFactor?: number;
  /** At most ceil(workers × this) items wait. @default 2 */
  readonly queueUpperFactor?: number;
  /** Failed or lost attempts after which a row is dead until requested again. @default none */
  readonly maxAttempts?: number;
  readonly backoff?: Partial<Backoff>;
}

export interface CompleteOptions extends Required<Omit<PipelineOptions, "backoff" | "maxAttempts">> {
  readonly maxAttempts: number | null;
  readonly backoff: Backoff;
}

export const PIPELINE_DEFAULTS = {
  workers: 10,
  batchSize: 10,
  lockTimeoutSeconds: 30,
  leaseSeconds: 20,
  heartbeatTickSeconds: 10,
  heartbeatTriggerSeconds: 15,
  processTimeoutSeconds: 60,
  queueLowerFactor: 0.5,
  queueUpperFactor: 2,
  maxAttempts: null,
  backoff: { firstSeconds: 1, factor: 2, maxSeconds: 300, jitter: 0.2 },
} as const satisfies CompleteOptions;

/** @default 15 */
export const EVERY_SECONDS = 15;
/** A worker function may run this much longer than one item, for claim and apply. */
export const FUNCTION_MARGIN_SECONDS = 30;
/** AWS Lambda: the longest a function may run. */
const FUNCTION_MAX_SECONDS = 900;
/** Amazon SQS event sources: MaximumConcurrency is at least 2. */
const MIN_CONCURRENCY = 2;
/** Timers count milliseconds, and hold 24 days of them; a lock or a delay of more than eleven is a mistake. */
const LEAST_SECONDS = 0.001;
const MOST_SECONDS = 1_000_000;
/** Between passes of a row that is as it should be: a year. */
export const EVERY_BOUNDS = [LEAST_SECONDS, 31_536_000] as const;
/** Their products still are numbers of items that PostgreSQL counts, and of seconds. */
const LEAST_FACTOR = 0.001;
const MOST_FACTOR = 1_000;
/** A delay of nothing would be a hot loop. */
const MOST_JITTER = 0.99;

/** Completes and checks the options of a pipeline. Throws OPTION or OPTION_RELATION with the numbers. */
export function completeOptions(name: string, given: PipelineOptions): CompleteOptions {
  const workers = given.workers ?? PIPELINE_DEFAULTS.workers;
  whole(name, "workers", workers, MIN_CONCURRENCY, 10_000);
  const batchSize = given.batchSize ?? PIPELINE_DEFAULTS.batchSize;
  whole(name, "batchSize", batchSize, 1, 10);
  const o: CompleteOptions = {
    ...PIPELINE_DEFAULTS,
    ...given,
    workers,
    // two functions at least run at once, so a batch holds at most half of the workers
    batchSize: Math.min(batchSize, Math.floor(workers / MIN_CONCURRENCY)),
    maxAttempts: given.maxAttempts ?? null,
    backoff: { ...PIPELINE_DEFAULTS.backoff, ...given.backoff },
  };
  checkNumbers(name, o);
  checkRelations(name, o);
  return o;
}

function checkNumbers(name: string, o: CompleteOptions): void {
  between(name, "lockTimeoutSeconds", o.lockTimeoutSeconds, LEAST_SECONDS, MOST_SECONDS);
  between(name, "leaseSeconds", o.leaseSeconds, LEAST_SECONDS, MOST_SECONDS);
  between(name, "heartbeatTickSeconds", o.heartbeatTickSeconds, LEAST_SECONDS, MOST_SECONDS);
  between(name, "heartbeatTriggerSeconds", o.heartbeatTriggerSeconds, LEAST_SECONDS, MOST_SECONDS);
  whole(name, "processTimeoutSeconds", o.processTimeoutSeconds, 1, FUNCTION_MAX_SECONDS - FUNCTION_MARGIN_SECONDS);
  between(name, "queueLowerFactor", o.queueLowerFactor, LEAST_FACTOR, MOST_FACTOR);
  between(name, "queueUpperFactor", o.queueUpperFactor, LEAST_FACTOR, MOST_FACTOR);
  if (o.maxAttempts !== null) whole(name, "maxAttempts", o.maxAttempts, 1, 1_000_000);
  between(name, "backoff.firstSeconds", o.backoff.firstSeconds, LEAST_SECONDS, MOST_SECONDS);
  between(name, "backoff.maxSeconds", o.backoff.maxSeconds, LEAST_SECONDS, MOST_SECONDS);
  between(name, "backoff.factor", o.backoff.factor, 1, MOST_FACTOR);
  between(name, "backoff.jitter", o.backoff.jitter, 0, MOST_JITTER);
}

function checkRelations(name: string, o: CompleteOptions): void {
  const fail = (left: string, leftValue: number, relation: string, right: string, rightValue: number) => {
    throw new MillraceError("OPTION_RELATION", { name, left, leftValue, relation, right, rightValue });
  };
  if (o.heartbeatTickSeconds >= o.heartbeatTriggerSeconds)
    fail(
      "heartbeatTickSeconds",
      o.heartbeatTickSeconds,
      "less than",
      "heartbeatTriggerSeconds",
      o.heartbeatTriggerSeconds,
    );
  if (o.heartbeatTriggerSeconds >= o.lockTimeoutSeconds)
    fail("heartbeatTriggerSeconds", o.heartbeatTriggerSeconds, "less than", "lockTimeoutSeconds", o.lockTimeoutSeconds);
  if (o.leaseSeconds > o.lockTimeoutSeconds)
    fail("leaseSeconds", o.leaseSeconds, "at most", "lockTimeoutSeconds", o.lockTimeoutSeconds);
  if (o.queueLowerFactor > o.queueUpperFactor)
    fail("queueLowerFactor", o.queueLowerFactor, "at most", "queueUpperFactor", o.queueUpperFactor);
  if (o.backoff.firstSeconds > o.backoff.maxSeconds)
    fail("backoff.firstSeconds", o.backoff.firstSeconds, "at most", "backoff.maxSeconds", o.backoff.maxSeconds);
}

/** @throws OPTION */
export function between(name: string, option: string, value: number, least: number, most: number): void {
  if (!(Number.isFinite(value) && value >= least && value <= most))
    throw new MillraceError("OPTION", { name, option, value, expected: `a number from ${least} to ${most}` });
}

function whole(name: string, option: string, value: number, least: number, most: number): void {
  if (!(Number.isInteger(value) && value >= least && value <= most))
    throw new MillraceError("OPTION", { name, option, value, expected: `a whole number from ${least} to ${most}` });
}

/** At most this many items of a pipeline are locked or queued. */
export const queueLimit = (o: CompleteOptions): number => Math.ceil(o.workers * o.queueUpperFactor);
/** Below this many, finished work asks for the next fetch. */
export const queueLower = (o: CompleteOptions): number => Math.ceil(o.workers * o.queueLowerFactor);
/** The longest a queued item waits for a worker; after it, nobody extends its lock. */
export const queueWaitSeconds = (o: CompleteOptions): number => o.queueUpperFactor * o.processTimeoutSeconds * 2;
/** A living worker renews this often. */
export const renewSeconds = (o: CompleteOptions): number => o.leaseSeconds / 3;
/** How many functions of a pipeline run at once. */
export const maxConcurrency = (o: CompleteOptions): number =>
  Math.max(MIN_CONCURRENCY, Math.ceil(o.workers / o.batchSize));
