import { setTimeout as pause } from "node:timers/promises";
import { RDSDataClient } from "@aws-sdk/client-rds-data";
import { type Kysely, Kysely as KyselyOn, PostgresDialect, type Transaction } from "kysely";
import pg from "pg";
import { callLimiter, dataApi, MillraceError } from "../../lib/index.ts";
import type { Statement } from "../../lib/sql/statement.ts";
import type { TestDatabase } from "../support/database-on.ts";
import type { Tally } from "./tally.ts";

/** One way to the database, as the application's role. Errors that may be repeated are repeated, and counted. */
export interface Sender {
  readonly way: "data api" | "pg";
  /** @returns the rows, and whether an earlier attempt got no answer */
  send<Row>(statement: Statement<Row>): Promise<{ readonly rows: readonly Row[]; readonly unanswered: boolean }>;
  /** A transaction of the application's own, repeated whole. */
  // biome-ignore lint/suspicious/noExplicitAny: tables of several schemas
  transaction(work: (trx: Transaction<any>) => Promise<void>): Promise<void>;
}

/** Rolled back whole: deadlock_detected, serialization_failure, lock_not_available. */
const REPEATED = new Set(["40P01", "40001", "55P03"]);
const MOST_ATTEMPTS = 50;

/** The SQLSTATE of an error of either way; undefined for other errors. */
export function sqlStateOf(error: unknown): string | undefined {
  const { code, message, cause } = error as { code?: string; message?: string; cause?: unknown };
  if (error instanceof MillraceError) return sqlStateOf(cause);
  if (error instanceof pg.DatabaseError) return code;
  return /SQLState: ([0-9A-Z]{5})\s*$/.exec(message ?? "")?.[1];
}

async function repeatedly<T>(tally: Tally, attempt: () => Promise<T>): Promise<T> {
  for (let n = 1; ; n++) {
    try {
      return await attempt();
    } catch (error) {
      const state = sqlStateOf(error);
      if (state === undefined || !REPEATED.has(state) || n === MOST_ATTEMPTS) throw error;
      tally.add(`repeated ${state}`);
      await pause(20 * Math.random());
    }
  }
}

// biome-ignore lint/suspicious/noExplicitAny: tables of several schemas
const transactionOn = (db: Kysely<any>, tally: Tally): Sender["transaction"] => {
  return (work) => repeatedly(tally, () => db.transaction().execute(work));
};

/** Through the Data API, with the repetitions of the adapter that the functions use. */
export function dataApiSender(database: TestDatabase, connections: number, tally: Tally): Sender {
  const { endpoint, clusterArn, secretArn, database: name } = database.dataApiConfig;
  const client = new RDSDataClient({
    endpoint,
    region: "us-east-1",
    credentials: { accessKeyId: "test", secretAccessKey: "test" },
    maxAttempts: 1,
  });
  const db = dataApi({ client, limiter: callLimiter(connections), resourceArn: clusterArn, secretArn, database: name });
  // what the adapter repeats is not to be seen from outside; every failed call is
  client.middlewareStack.add(
    (next) => async (args) => {
      try {
        return await next(args);
      } catch (error) {
        const state = sqlStateOf(error);
        if (!isTransaction(args.input)) tally.add(`repeated ${state ?? "unanswered"}`);
        throw error;
      }
    },
    { step: "initialize" },
  );
  return {
    way: "data api",
    send: (statement) => db.run(statement, { patient: true }),
    transaction: transactionOn(db.kysely, tally),
  };
}

const isTransaction = (input: object) => "transactionId" in input && input.transactionId !== undefined;

/** Through a pool of connections. */
export function pgSender(pool: pg.Pool, tally: Tally): Sender {
  const db = new KyselyOn<unknown>({ dialect: new PostgresDialect({ pool }) });
  return {
    way: "pg",
    async send(statement) {
      const { rows } = await repeatedly(tally, () => statement.query.execute(db));
      return { rows, unanswered: false };
    },
    transaction: transactionOn(db, tally),
  };
}
