import {
  BeginTransactionCommand,
  CommitTransactionCommand,
  ExecuteStatementCommand,
  type RDSDataClient,
  RollbackTransactionCommand,
} from "@aws-sdk/client-rds-data";
import { Kysely } from "kysely";
import pLimit, { type LimitFunction } from "p-limit";
import type { Answered, Clock, Database, RunOptions } from "../engine/ports.ts";
import { MillraceError } from "../errors.ts";
import type { Statement } from "../sql/statement.ts";
import { systemClock } from "./clock.ts";
import { type DataApiCalls, type DataApiTarget, mendedDialect } from "./data-api-dialect.ts";
import { type Classified, classify } from "./data-api-errors.ts";

/** Longest wait for one answer, in seconds: AWS advises a minute, so that the client does not give up first. */
const ANSWER_SECONDS = 60;
/** What a fence answers to a write past a lock; as final as every failure (lib/schema/engine-tables.ts raises it). */
const UNFENCED = "MR001";
/** Kept back from the time left, to report what happened. */
const RESERVE_MS = 500;

export interface DataApiOptions extends DataApiTarget {
  /** A client with `maxAttempts: 1`: what may be repeated is decided here. */
  readonly client: RDSDataClient;
  /** Calls at once of this process, over all its connections. Share one limiter within a process. */
  readonly limiter: LimitFunction;
  /** Milliseconds until the function is stopped. @default no end */
  readonly timeLeft?: () => number;
  /** Time for waiting and for limits. @default the process's own, which never goes back */
  readonly clock?: Clock;
  /** 0 to just under 1, for the lengths of pauses. @default Math.random */
  readonly random?: () => number;
}

/** Counts from the start of the process: no correction of the system's time moves it. */
const steadyClock: Clock = { now: () => performance.now(), wait: systemClock.wait };

/** Calls at once of one process: `callsInFlight` of the connection budget. */
export const callLimiter = (callsInFlight: number): LimitFunction => pLimit(callsInFlight);

/** The database of an application, reached by stateless calls. */
export interface DataApiDatabase<DB> extends Database {
  /** For the application's own queries. */
  readonly kysely: Kysely<DB>;
  /**
   * Runs one of the application's own reads: repeated, and its failures told apart, as those of every statement are.
   * Only for what is safe to run twice.
   * @throws as `run`
   */
  read<T>(name: string, query: (db: Kysely<DB>) => Promise<T>): Promise<T>;
  /**
   * Runs long DDL outside a transaction: the statement goes on when the call times out.
   * @returns whether the end was seen
   */
  runLong(statement: Statement<unknown>): Promise<"done" | "unanswered">;
}

/** Connects to a database through the Data API. Makes no call by itself. */
export function dataApi<DB>(options: DataApiOptions): DataApiDatabase<DB> {
  const timeLeft = options.timeLeft ?? (() => Number.POSITIVE_INFINITY);
  const time: Time = { timeLeft, clock: options.clock ?? steadyClock, random: options.random ?? Math.random };
  const kyselyOf = (seconds: number, continueAfterTimeout: boolean) =>
    new Kysely<DB>({ dialect: mendedDialect(callsOf(options, seconds, time, continueAfterTimeout), options) });
  const kysely = kyselyOf(ANSWER_SECONDS, false);
  return {
    kysely,
    run: (statement, runOptions = {}) => {
      const seconds = runOptions.timeoutSeconds ?? ANSWER_SECONDS;
      const executor = seconds === ANSWER_SECONDS ? kysely : kyselyOf(seconds, false);
      return repeat(statement.name, runOptions, time, async () => {
        return (await statement.query.execute(executor)).rows;
      });
    },
    async read(name, query) {
      const { rows } = await repeat(name, { patient: true }, time, async () => [await query(kysely)]);
      return rows[0]!;
    },
    async runLong(statement) {
      try {
        await statement.query.execute(kyselyOf(ANSWER_SECONDS, true));
        return "done";
      } catch (cause) {
        const classified = classify(cause);
        if (classified.failure === "unanswered") return "unanswered";
        throw failureOf(statement.name, classified, cause);
      }
    },
  };
}

interface Time {
  readonly timeLeft: () => number;
  readonly clock: Clock;
  readonly random: () => number;
}

function callsOf(
  { client, limiter }: DataApiOptions,
  seconds: number,
  { timeLeft, clock }: Time,
  continueAfterTimeout: boolean,
): DataApiCalls {
  const call = <T>(send: (options: { abortSignal: AbortSignal }) => Promise<T>) =>
    limiter(async () => {
      const ms = Math.max(1, Math.min(seconds * 1000, timeLeft() - RESERVE_MS));
      const timer = new AbortController();
      const answered = new AbortController();
      void clock.wait(ms, answered.signal).then(() => {
        if (!answered.signal.aborted) timer.abort();
      });
      try {
        return await send({ abortSignal: timer.signal });
      } finally {
        answered.abort();
      }
    });
  return {
    executeStatement: (input: ConstructorParameters<typeof ExecuteStatementCommand>[0]) =>
      call((o) =>
        client.send(new ExecuteStatementCommand(continueAfterTimeout ? { ...input, continueAfterTimeout } : input), o),
      ),
    beginTransaction: (input: ConstructorParameters<typeof BeginTransactionCommand>[0]) =>
      call((o) => client.send(new BeginTransactionCommand(input), o)),
    commitTransaction: (input: ConstructorParameters<typeof CommitTransactionCommand>[0]) =>
      call((o) => client.send(new CommitTransactionCommand(input), o)),
    rollbackTransaction: (input: ConstructorParameters<typeof RollbackTransactionCommand>[0]) =>
      call((o) => client.send(new RollbackTransactionCommand(input), o)),
  } as unknown as DataApiCalls;
}

/** Waits between attempts, in ms: at once after a rollback, patiently while the database wakes up. */
function pause(classified: Classified, attempt: number, random: () => number): number {
  if (classified.failure === "resuming") return Math.min(5000, 1000 * 1.5 ** attempt) * (0.9 + 0.2 * random());
  return Math.min(2000, 20 * 2 ** attempt) * (0.5 + random());
}

async function repeat<Row>(
  statement: string,
  { patient = false, withinSeconds = ANSWER_SECONDS }: RunOptions,
  { timeLeft, clock, random }: Time,
  attempt: () => Promise<readonly Row[]>,
): Promise<Answered<Row>> {
  const until = clock.now() + Math.min(withinSeconds * 1000, timeLeft() - 2 * RESERVE_MS);
  let unanswered = false;
  for (let n = 0; ; n++) {
    try {
      return { rows: await attempt(), unanswered };
    } catch (cause) {
      if (cause instanceof MillraceError) throw cause;
      const classified = classify(cause);
      if (classified.failure === "unanswered") unanswered = true;
      const hopeless =
        classified.failure === "failed" ||
        classified.failure === "refused" ||
        (classified.failure === "lockTimeout" && !patient);
      const ms = pause(classified, n, random);
      if (hopeless || clock.now() + ms > until)
        throw unanswered && !hopeless
          ? new MillraceError("DATABASE_UNANSWERED", { statement }, { cause })
          : failureOf(statement, classified, cause, unanswered);
      await clock.wait(ms);
    }
  }
}

/** `details.unanswered`: an earlier attempt got no answer, so nobody knows. */
function failureOf(statement: string, { failure, sqlState, message }: Classified, cause: unknown, unanswered = false) {
  const details = { statement, message, sqlState, failure, unanswered };
  if (failure === "resuming") return new MillraceError("DATABASE_RESUMING", details, { cause });
  if (failure === "unanswered") return new MillraceError("DATABASE_UNANSWERED", details, { cause });
  if (sqlState === UNFENCED) return new MillraceError("ROW_FENCED", details, { cause });
  if (failure === "failed" || failure === "lockTimeout")
    return new MillraceError("STATEMENT_FAILED", details, { cause });
  return new MillraceError("DATABASE_REFUSED", details, { cause });
}
