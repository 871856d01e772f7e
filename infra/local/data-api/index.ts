import { randomUUID } from "node:crypto";
import { BackendPool } from "./backend-pool.ts";
import { ApiFailure } from "./failure.ts";
import { createFaults, type Fault, type Faults, faultFailure } from "./faults.ts";
import { createOperations, failTransaction } from "./operations.ts";
import { type ApiRequest, OPERATIONS, type Operation, readRequest } from "./request.ts";
import type { SessionContext } from "./session.ts";
import { createCallCounter, type DataApiStats } from "./stats.ts";
import { createTransactions, type Warning } from "./transactions.ts";

export type { FaultSpec, Faults } from "./faults.ts";
export type { Warning } from "./transactions.ts";

export interface DataApiOptions {
  /** The PostgreSQL behind it. */
  readonly host: string;
  readonly port: number;
  /** ARN of the one cluster it knows. */
  readonly resourceArn: string;
  /** User and password behind a secret's ARN; undefined if there is no such secret. */
  secret(arn: string): { readonly username: string; readonly password: string } | undefined;
  /** For requests that name none. Default `postgres`. */
  readonly database?: string;
  /** Most connections at once, over all secrets and databases; calls beyond it wait in line. Default 80. */
  readonly poolSize?: number;
  /** A transaction that waits longer than this for its next call is worth a warning. Default 100. */
  readonly warnIdleTransactionMs?: number;
  /** Default 45,000, as the service has it. */
  readonly statementTimeoutMs?: number;
  onWarning?(warning: Warning): void;
  /** Clock of transaction expiry, in milliseconds. Default Date.now. */
  now?(): number;
  /** Chooses among idle connections: 0 to just under 1. Default Math.random. */
  random?(): number;
}

interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface DataApi {
  /** Answers a POST; "lost" means that the connection is to be dropped without an answer. Never rejects. */
  handle(path: string, body: string): Promise<HttpAnswer | "lost">;
  readonly faults: Faults;
  stats(): DataApiStats;
  /** Rolls back what is open and closes all connections; calls that hang are lost. */
  close(): Promise<void>;
}

const BODY_LIMIT = 4 * 1_048_576;
const EXPIRY_EVERY_MS = 1_000;

/** The RDS Data API of Aurora PostgreSQL over a plain PostgreSQL, as strict as the service. */
export function createDataApi(options: DataApiOptions): DataApi {
  const { now = Date.now, onWarning = () => undefined, statementTimeoutMs = 45_000 } = options;
  const pool = new BackendPool({
    size: options.poolSize ?? 80,
    statementTimeoutMs,
    random: options.random ?? Math.random,
  });
  const transactions = createTransactions({ now, onWarning, warnIdleMs: options.warnIdleTransactionMs ?? 100 });
  const database = (request: ApiRequest) => request.database ?? options.database ?? "postgres";
  const login = (request: ApiRequest) => {
    const { username = "", password = "" } = options.secret(request.secretArn) ?? {};
    return { host: options.host, port: options.port, user: username, password, database: database(request) };
  };
  const context: SessionContext = { pool, transactions, statementTimeoutMs, login, database, onWarning };
  const operations = createOperations(context);
  const faults = createFaults();
  const counter = createCallCounter();
  const closing = Promise.withResolvers<"lost">();
  const expiry = setInterval(() => void transactions.expire(), EXPIRY_EVERY_MS).unref();

  async function call(path: string, body: string): Promise<HttpAnswer | "lost"> {
    if (Buffer.byteLength(body) > BODY_LIMIT) return { status: 413, headers: {}, body: "" };
    const operation = OPERATIONS[path as keyof typeof OPERATIONS];
    if (!operation) throw new ApiFailure("UnknownOperationException", `Unknown operation ${path}`);
    const request = readRequest(operation, body);
    counter.understood(operation, request.sql);
    checkArns(options, operation, request);
    await transactions.expire();
    const fault = faults.take(operation, request.sql);
    if (fault?.kind === "hang") return closing.promise;
    if (fault) await befall(fault, operation, request);
    const running = operations[operation](request);
    if (fault?.kind === "lostAnswer")
      return running.then(
        () => "lost",
        () => "lost",
      );
    return answer(200, await running);
  }

  async function befall(fault: Fault, operation: Operation, request: ApiRequest): Promise<void> {
    if (fault.kind === "lostAnswer") return;
    if (fault.kind === "delay") return pause(fault.seconds ?? 1, closing.promise);
    const failure = faultFailure(fault, request.resourceArn);
    if (fault.kind === "error") await failTransaction(context, operation, request, failure.name);
    throw failure;
  }

  return {
    faults,
    stats: () => ({ ...counter.read(), ...pool.stats(), transactions: transactions.count() }),
    async handle(path, body) {
      counter.started();
      try {
        return await call(path, body);
      } catch (error) {
        const failure = error instanceof ApiFailure ? error : new ApiFailure("InternalServerErrorException");
        if (failure !== error) onWarning({ kind: "internalError", error });
        return answer(failure.status, failure.body, { "x-amzn-errortype": failure.name });
      } finally {
        counter.ended();
      }
    },
    async close() {
      clearInterval(expiry);
      closing.resolve("lost");
      await pool.close();
    },
  };
}

function answer(status: number, body: object, headers: Readonly<Record<string, string>> = {}): HttpAnswer {
  const all = { "content-type": "application/json", "x-amzn-requestid": randomUUID(), ...headers };
  return { status, headers: all, body: JSON.stringify(body) };
}

function checkArns(options: DataApiOptions, operation: Operation, { resourceArn, secretArn }: ApiRequest): void {
  const ends = operation === "CommitTransaction" || operation === "RollbackTransaction";
  if (resourceArn !== options.resourceArn) {
    throw new ApiFailure(
      ends ? "NotFoundException" : "DatabaseNotFoundException",
      `Cluster ${resourceArn} is not found`,
    );
  }
  if (!options.secret(secretArn)) {
    const text = `Secrets Manager can't find the specified secret: ${secretArn}`;
    throw new ApiFailure(ends ? "NotFoundException" : "SecretsErrorException", text);
  }
}

async function pause(seconds: number, unless: Promise<unknown>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, seconds * 1000);
  await Promise.race([promise, unless]);
  clearTimeout(timer);
}
