import { executeAnswer, JSON_LIMIT, RESULT_LIMIT } from "./answer.ts";
import { bindParameters } from "./bind.ts";
import { type Catalog, createCatalog } from "./catalog.ts";
import { ApiFailure } from "./failure.ts";
import { scanParameters } from "./named-parameters.ts";
import type { ApiRequest, Operation } from "./request.ts";
import { runStatement, type Session, type SessionContext, withSession } from "./session.ts";
import { sqlFailure } from "./sql-error.ts";
import { Statement, type StatementResult } from "./statement.ts";

/** The five operations: each takes a checked request and gives the body of its answer, or throws ApiFailure. */
export type Operations = Readonly<Record<Operation, (request: ApiRequest) => Promise<object>>>;

export function createOperations(context: SessionContext): Operations {
  const catalogs = new Map<string, Catalog>();
  const catalogOf = (request: ApiRequest): Catalog => {
    const database = context.database(request);
    const catalog = catalogs.get(database) ?? createCatalog();
    catalogs.set(database, catalog);
    return catalog;
  };
  const limits = (request: ApiRequest, mostBytes: number) => ({
    deadline: performance.now() + context.statementTimeoutMs,
    mostBytes,
    goOn: request.continueAfterTimeout,
  });

  return {
    ExecuteStatement(request) {
      const sql = scanParameters(request.sql);
      const values = bindParameters(sql, request.parameters);
      return withSession(context, request, async (session) => {
        const catalog = catalogOf(request);
        const mostBytes = request.formatAsJson ? JSON_LIMIT : RESULT_LIMIT;
        const result = await runStatement(session, sql.text, values, limits(request, mostBytes));
        if (changesDefinitions(result)) catalog.forget();
        return executeAnswer(result, request, session.backend, catalog).catch((error) => {
          spoilIfTooLarge(session, request, error);
          throw error;
        });
      });
    },

    BatchExecuteStatement(request) {
      const sql = scanParameters(request.sql);
      const sets = request.parameterSets.map((set) => bindParameters(sql, set));
      return withSession(context, request, async (session) => {
        const most = { ...limits(request, 0), goOn: false };
        // Without a transaction each set stands for itself: what ran before a failure stays.
        for (const values of sets) {
          const result = await runStatement(session, sql.text, values, most);
          if (changesDefinitions(result)) catalogOf(request).forget();
        }
        return { updateResults: sets.map(() => ({ generatedFields: [] })) };
      });
    },

    async BeginTransaction(request) {
      const loan = await context.pool.acquire(context.login(request)).catch((error) => {
        throw sqlFailure(error);
      });
      const { id } = await context.transactions.begin(loan, request.secretArn, context.database(request));
      return { transactionId: id };
    },

    async CommitTransaction(request) {
      await context.transactions.end(request.transactionId as string, request.secretArn, "commit");
      return { transactionStatus: "Transaction Committed" };
    },

    async RollbackTransaction(request) {
      await context.transactions.end(request.transactionId as string, request.secretArn, "rollback");
      return { transactionStatus: "Rollback Complete" };
    },
  };
}

/** What an SQL error does to the transaction that a call belongs to, without its statement having run. */
export async function failTransaction(
  context: SessionContext,
  operation: Operation,
  request: ApiRequest,
  name: string,
) {
  if (!request.transactionId) return;
  const over = operation === "CommitTransaction" || name === "TransactionNotFoundException";
  if (over) await context.transactions.end(request.transactionId, request.secretArn, "rollback");
  else if (operation !== "RollbackTransaction" && name === "DatabaseErrorException") {
    const raise = new Statement("do $$ begin raise exception 'injected fault'; end $$");
    await withSession(context, request, ({ backend }) => backend.run(raise));
  }
}

function spoilIfTooLarge(session: Session, request: ApiRequest, error: unknown): void {
  // The service ends the transaction of a call whose result is too large.
  const tooLarge = error instanceof ApiFailure && error.message.includes("size limit");
  if (tooLarge && request.transactionId) session.spoiled = true;
}

function changesDefinitions({ tag }: StatementResult): boolean {
  return /^(?:CREATE|ALTER|DROP|DO|CALL)\b/.test(tag);
}
