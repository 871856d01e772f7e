import type { Operation } from "./request.ts";

/** What a Data API server has done since it was made. */
export interface DataApiStats {
  /** All calls, refused ones too. */
  readonly calls: number;
  readonly inFlight: number;
  readonly operations: Readonly<Partial<Record<Operation, number>>>;
  /** Calls with SQL by the comment that their SQL begins with, and `other`. A batch counts once. */
  readonly statements: Readonly<Record<string, number>>;
  /** Connections open now. */
  readonly connections: number;
  readonly idle: number;
  /** Connections with a caller or a transaction on them now, and the most there have been at once. */
  readonly busy: number;
  readonly highWater: number;
  /** Calls that wait for a connection now. */
  readonly queued: number;
  /** Transactions open now. */
  readonly transactions: number;
}

export interface CallCounter {
  started(): void;
  understood(operation: Operation, sql: string): void;
  ended(): void;
  read(): Pick<DataApiStats, "calls" | "inFlight" | "operations" | "statements">;
}

export function createCallCounter(): CallCounter {
  let calls = 0;
  let inFlight = 0;
  const operations: Partial<Record<Operation, number>> = {};
  const statements = new Map<string, number>();
  return {
    started() {
      calls++;
      inFlight++;
    },
    understood(operation, sql) {
      operations[operation] = (operations[operation] ?? 0) + 1;
      if (operation !== "ExecuteStatement" && operation !== "BatchExecuteStatement") return;
      const name = statementName(sql);
      statements.set(name, (statements.get(name) ?? 0) + 1);
    },
    ended() {
      inFlight--;
    },
    read: () => ({ calls, inFlight, operations: { ...operations }, statements: Object.fromEntries(statements) }),
  };
}

/** The comment that SQL begins with, as `millrace:claim volumes`; else `other`. */
export function statementName(sql: string): string {
  return /^\s*\/\*\s*([\s\S]+?)\s*\*\//.exec(sql)?.[1] ?? "other";
}
