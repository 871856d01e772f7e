import { setTimeout as delay } from "node:timers/promises";
import type { Backend, Login } from "./backend.ts";
import type { BackendPool } from "./backend-pool.ts";
import type { BoundValue } from "./bind.ts";
import { ApiFailure } from "./failure.ts";
import type { ApiRequest } from "./request.ts";
import { sqlFailure } from "./sql-error.ts";
import { Statement, type StatementResult } from "./statement.ts";
import type { Transactions, Warning } from "./transactions.ts";

/** What one call runs its statements on. */
export interface Session {
  readonly backend: Backend;
  /** Set where something goes on after the call was answered; the session ends when that has. */
  goesOn?: Promise<unknown>;
  /** Set where the transaction cannot be used any further, or outside of one the backend. */
  spoiled?: boolean;
}

export interface SessionContext {
  readonly pool: BackendPool;
  readonly transactions: Transactions;
  readonly statementTimeoutMs: number;
  login(request: ApiRequest): Login;
  database(request: ApiRequest): string;
  onWarning(warning: Warning): void;
}

/** Cancelling is given up after this, and the connection dropped. */
const CANCEL_PATIENCE_MS = 5_000;

/** Runs `work` on the transaction's backend or, without one, on any backend of the role and database. */
export async function withSession<T>(
  context: SessionContext,
  request: ApiRequest,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const { backend, end } = await openSession(context, request);
  const session: Session = { backend };
  try {
    return await work(session);
  } finally {
    if (session.goesOn) void session.goesOn.then(() => end(session));
    else await end(session);
  }
}

async function openSession(context: SessionContext, request: ApiRequest) {
  const { transactionId, secretArn, database, sql } = request;
  if (transactionId) {
    const transaction = context.transactions.enter(transactionId, secretArn, database, sql);
    const end = (session: Session) => context.transactions.leave(transaction, session.spoiled);
    return { backend: transaction.loan.backend, end };
  }
  const loan = await context.pool.acquire(context.login(request)).catch((error) => {
    throw sqlFailure(error);
  });
  const end = async ({ spoiled }: Session) => {
    const left = loan.backend.alive() && loan.backend.state() !== "idle";
    // BEGIN as SQL outside of a transaction of the service: nobody can ever end it.
    if (left) context.onWarning({ kind: "transactionLeftOpen", sql });
    loan.release(left || spoiled);
  };
  return { backend: loan.backend, end };
}

/**
 * Runs one statement until `deadline` (performance.now()). StatementTimeoutException after that: the statement is
 * cancelled or, with `continueAfterTimeout`, goes on without its caller.
 */
export async function runStatement(
  session: Session,
  sql: string,
  values: readonly BoundValue[],
  limits: { readonly deadline: number; readonly mostBytes: number; readonly goOn: boolean },
): Promise<StatementResult> {
  const { backend } = session;
  const lift = limits.goOn && backend.ownsTimeout && backend.state() !== "failed";
  if (lift) await backend.run(new Statement(LIFT_TIMEOUT));
  const running = finish(backend, backend.run(new Statement(sql, values, limits.mostBytes)), lift);
  const timer = new AbortController();
  const wait = delay(Math.max(0, limits.deadline - performance.now()), undefined, { signal: timer.signal });
  const first = await Promise.race([running, wait.catch(() => undefined)]);
  timer.abort();
  if (first === undefined) {
    if (limits.goOn) session.goesOn = running;
    else await cancel(session, running);
    throw timedOut(backend);
  }
  if (first.error) throw failed(first.error, backend, limits.deadline);
  return first;
}

const LIFT_TIMEOUT =
  "/* data-api:session */ select set_config('data_api.timeout', current_setting('statement_timeout'), false), set_config('statement_timeout', '0', false)";
const RESTORE_TIMEOUT =
  "/* data-api:session */ select set_config('statement_timeout', current_setting('data_api.timeout'), false)";

async function finish(backend: Backend, running: Promise<StatementResult>, lifted: boolean): Promise<StatementResult> {
  const result = await running;
  // In a failed transaction the rollback restores it.
  if (lifted && backend.alive() && backend.state() !== "failed") await backend.run(new Statement(RESTORE_TIMEOUT));
  return result;
}

async function cancel(session: Session, running: Promise<unknown>): Promise<void> {
  await session.backend.cancel();
  const patience = new AbortController();
  const gaveUp = delay(CANCEL_PATIENCE_MS, true, { signal: patience.signal }).catch(() => false);
  if (await Promise.race([running.then(() => false), gaveUp])) await session.backend.close();
  patience.abort();
  // A cancel request that comes late must not hit somebody else's statement.
  session.spoiled = session.backend.state() === "idle";
}

function failed(error: Error, backend: Backend, deadline: number): ApiFailure {
  const { code } = error as { code?: string };
  // PostgreSQL's clock and ours run side by side: its own cancel at the limit is the limit.
  const atLimit = code === "57014" && backend.ownsTimeout && performance.now() >= deadline - 20;
  return atLimit ? timedOut(backend) : sqlFailure(error);
}

function timedOut(backend: Backend): ApiFailure {
  const message = "canceling statement due to statement timeout";
  return new ApiFailure("StatementTimeoutException", message, { dbConnectionId: backend.pid });
}
