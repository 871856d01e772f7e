import { randomBytes } from "node:crypto";
import type { Loan } from "./backend-pool.ts";
import { ApiFailure } from "./failure.ts";
import { sqlFailure } from "./sql-error.ts";
import { Statement } from "./statement.ts";

/** A transaction of the service: a backend of its own until it ends. */
interface Transaction {
  readonly id: string;
  readonly loan: Loan;
  readonly secretArn: string;
  readonly database: string;
}

/** Something a caller should not do, though the service allows it. */
export type Warning =
  | { kind: "idleTransaction"; transactionId: string; idleMs: number; after: string; before: string }
  | { kind: "transactionLeftOpen"; sql: string }
  | { kind: "internalError"; error: unknown };

export interface TransactionOptions {
  readonly warnIdleMs: number;
  now(): number;
  onWarning(warning: Warning): void;
}

export interface Transactions {
  /** Begins on the backend, which belongs to the transaction from now on. */
  begin(loan: Loan, secretArn: string, database: string): Promise<Transaction>;
  /** For one call; `leave` must follow. Fails if there is no such transaction or another call is using it. */
  enter(id: string, secretArn: string, database: string | undefined, sql: string): Transaction;
  /** After a call. `abort` rolls the transaction back, and it is no more. */
  leave(transaction: Transaction, abort?: boolean): Promise<void>;
  end(id: string, secretArn: string, how: "commit" | "rollback"): Promise<void>;
  /** Rolls back what has been idle for too long. */
  expire(): Promise<void>;
  count(): number;
}

const IDLE_LIMIT_MS = 3 * 60_000;
const TOTAL_LIMIT_MS = 24 * 3_600_000;
const REMEMBERED = 1000;
const EXPIRED = "Transaction may be expired.";
const ENDED = "One previous call resulted in a termination of your transaction.";
const ABORTED = "Transaction has been aborted due to an error from a previous call.";

interface Entry extends Transaction {
  readonly startedAt: number;
  idleSince: number;
  busy: boolean;
  lastSql: string;
}

export function createTransactions({ warnIdleMs, now, onWarning }: TransactionOptions): Transactions {
  const open = new Map<string, Entry>();
  const causes = new Map<string, string>();

  function find(id: string, secretArn: string): Entry {
    const entry = open.get(id);
    if (entry && !entry.busy && !entry.loan.backend.alive()) {
      forget(entry, ABORTED);
      entry.loan.release();
    }
    const found = open.get(id);
    if (found && found.secretArn === secretArn) return found;
    throw new ApiFailure(
      "TransactionNotFoundException",
      `Transaction ${id} is not found. ${causes.get(id) ?? EXPIRED}`,
    );
  }

  function forget(entry: Entry, cause: string): void {
    open.delete(entry.id);
    causes.set(entry.id, cause);
    for (const [oldest] of causes) if (causes.size > REMEMBERED) causes.delete(oldest);
  }

  function take(id: string, secretArn: string, sql: string): Entry {
    const entry = find(id, secretArn);
    if (entry.busy) throw new ApiFailure("DatabaseErrorException", "Transaction is still running a query");
    warn(entry, sql);
    entry.busy = true;
    entry.lastSql = sql;
    return entry;
  }

  function warn({ id, idleSince, lastSql }: Entry, before: string): void {
    const idleMs = now() - idleSince;
    if (idleMs > warnIdleMs) onWarning({ kind: "idleTransaction", transactionId: id, idleMs, after: lastSql, before });
  }

  /** Takes it off the list, then ends it on the backend. A commit that PostgreSQL refuses has rolled back. */
  async function finish(entry: Entry, sql: "commit" | "rollback", cause: string): Promise<void> {
    forget(entry, cause);
    const { error } = await entry.loan.backend.run(new Statement(sql));
    entry.loan.release(entry.loan.backend.state() !== "idle");
    if (!error || sql === "rollback") return;
    causes.set(entry.id, ABORTED);
    throw sqlFailure(error);
  }

  return {
    async begin(loan, secretArn, database) {
      const { error } = await loan.backend.run(new Statement("begin"));
      if (error) {
        loan.release(true);
        throw sqlFailure(error);
      }
      // About as long as the service's, and beginning alike.
      const id = `AUVtEbv4${randomBytes(132).toString("base64")}`;
      const at = now();
      const entry = { id, loan, secretArn, database, startedAt: at, idleSince: at, busy: false, lastSql: "begin" };
      open.set(id, entry);
      return entry;
    },
    enter(id, secretArn, database, sql) {
      const entry = find(id, secretArn);
      if (database && database !== entry.database) {
        throw new ApiFailure("BadRequestException", "Database name is not the same as transaction's");
      }
      return take(id, secretArn, sql);
    },
    async leave(transaction, abort = false) {
      const entry = transaction as Entry;
      entry.busy = false;
      entry.idleSince = now();
      const { backend } = entry.loan;
      if (abort || !backend.alive()) await finish(entry, "rollback", ABORTED);
      // A COMMIT or ROLLBACK that came as SQL: what follows must not run outside of any transaction.
      else if (backend.state() === "idle") await finish(entry, "rollback", ENDED);
    },
    async end(id, secretArn, how) {
      const entry = take(id, secretArn, how);
      if (how === "commit" && entry.loan.backend.state() === "failed") {
        entry.busy = false;
        const message = "current transaction is aborted, commands ignored until end of transaction block";
        throw sqlFailure(Object.assign(new Error(message), { severity: "ERROR", code: "25P02" }));
      }
      await finish(entry, how, ENDED);
    },
    async expire() {
      const at = now();
      const overdue = [...open.values()].filter(
        ({ busy, idleSince, startedAt }) =>
          !busy && (at - idleSince >= IDLE_LIMIT_MS || at - startedAt >= TOTAL_LIMIT_MS),
      );
      await Promise.all(
        overdue.map((entry) => {
          warn(entry, "(expired)");
          return finish(entry, "rollback", EXPIRED);
        }),
      );
    },
    count: () => open.size,
  };
}
