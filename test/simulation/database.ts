import { executeAnswer, RESULT_LIMIT } from "../../infra/local/data-api/answer.ts";
import { type Backend, type Login, openBackend } from "../../infra/local/data-api/backend.ts";
import { type BoundValue, bindParameters } from "../../infra/local/data-api/bind.ts";
import { type Catalog, createCatalog } from "../../infra/local/data-api/catalog.ts";
import { ApiFailure } from "../../infra/local/data-api/failure.ts";
import { scanParameters } from "../../infra/local/data-api/named-parameters.ts";
import { type ApiRequest, readRequest } from "../../infra/local/data-api/request.ts";
import { sqlFailure } from "../../infra/local/data-api/sql-error.ts";
import { Statement, type StatementResult } from "../../infra/local/data-api/statement.ts";
import { until } from "../support/until.ts";
import { forgetPrepared, PreparedStatement } from "./prepared.ts";

/** Real time, however slow the machine is. */
const STATEMENT_PATIENCE_MS = 60_000;

/** What a statement is told about its place in the simulation. */
export interface Stamp {
  readonly call: number;
  readonly name: string;
  /** The instant that its now() answers. */
  readonly now: Date;
}

/** A statement in a transaction of its own, whose end the simulation decides. */
export interface OpenStatement {
  readonly backend: Backend;
  /** What is answered once it has been committed; or the failure, after which it can only be rolled back. */
  answer?: { readonly body: object } | { readonly failure: ApiFailure };
  /** Resolves when `answer` is there. */
  readonly running: Promise<void>;
}

/** The service's transactions and connections, opened out: one statement in each, committed when it is told so. */
export class SteppedDatabase {
  readonly #login: Login;
  readonly #observer: Backend;
  readonly #catalog: Catalog = createCatalog();
  readonly #idle: Backend[] = [];
  readonly #open = new Set<OpenStatement>();

  private constructor(login: Login, observer: Backend) {
    this.#login = login;
    this.#observer = observer;
  }

  static async connect(login: Login, observer: Login): Promise<SteppedDatabase> {
    return new SteppedDatabase(login, await openBackend(observer, 0, () => undefined));
  }

  /** Transactions that have not ended. */
  get open(): number {
    return this.#open.size;
  }

  /** Runs a request's statement and leaves its transaction open. Resolves when it has its answer, or waits for a lock. */
  async execute(input: object, stamp: Stamp): Promise<OpenStatement> {
    const backend = this.#idle.pop() ?? (await this.#openOne());
    const alone = this.#open.size === 0;
    let statement: OpenStatement | undefined;
    const running = this.#run(backend, readRequest("ExecuteStatement", JSON.stringify(input)), stamp).then((answer) => {
      statement!.answer = answer;
    });
    statement = { backend, running };
    this.#open.add(statement);
    if (alone) await running;
    else await this.settled(statement);
    return statement;
  }

  /** Resolves when the statement has its answer, or waits for a lock that somebody holds. */
  async settled(statement: OpenStatement): Promise<void> {
    const what = "a statement's answer or wait";
    await until(async () => statement.answer !== undefined || (await this.#waits(statement.backend.pid)), {
      what,
      everyMs: 1,
      timeoutMs: STATEMENT_PATIENCE_MS,
    });
  }

  async commit(statement: OpenStatement): Promise<void> {
    await this.#end(statement, "commit");
  }

  async rollBack(statement: OpenStatement): Promise<void> {
    await this.#end(statement, "rollback");
  }

  /** Ends a wait for a lock, as lock_timeout does. */
  async timeOut(statement: OpenStatement): Promise<void> {
    await statement.backend.cancel();
    await statement.running;
    await this.rollBack(statement);
  }

  /** The schema has changed, while nothing was open. */
  async forget(): Promise<void> {
    this.#catalog.forget();
    for (const backend of this.#idle) await forgetPrepared(backend);
  }

  /** Rolls back whatever is open. */
  async rollBackAll(): Promise<void> {
    for (const statement of [...this.#open].sort(waitingFirst))
      await (statement.answer === undefined ? this.timeOut(statement) : this.rollBack(statement));
  }

  async close(): Promise<void> {
    await this.rollBackAll();
    await Promise.all([this.#observer, ...this.#idle].map((backend) => backend.close()));
  }

  async #run(
    backend: Backend,
    request: ApiRequest,
    { call, name, now }: Stamp,
  ): Promise<{ readonly body: object } | { readonly failure: ApiFailure }> {
    const scanned = scanParameters(request.sql);
    const values = bindParameters(scanned, request.parameters);
    const sent = `${values.map((v) => v.text).join(" ")} ${request.sql}`;
    await must(backend, new Statement("begin"));
    await must(
      backend,
      new PreparedStatement(backend, STAMP, [now.toISOString(), String(call), name, sent].map(asText)),
    );
    const result = await backend.run(new PreparedStatement(backend, scanned.text, values, RESULT_LIMIT));
    if (result.error) return { failure: sqlFailure(result.error) };
    try {
      return { body: await executeAnswer(result, request, backend, this.#catalog) };
    } catch (error) {
      if (error instanceof ApiFailure) return { failure: error };
      throw error;
    }
  }

  async #openOne(): Promise<Backend> {
    const backend = await openBackend(this.#login, 0, () => undefined);
    await must(backend, new Statement("set plan_cache_mode = force_generic_plan"));
    // the simulation decides how long anything waits
    await must(backend, new Statement("set lock_timeout = 0"));
    await must(backend, new Statement("set idle_in_transaction_session_timeout = 0"));
    return backend;
  }

  async #end(statement: OpenStatement, how: "commit" | "rollback"): Promise<void> {
    if (!this.#open.delete(statement)) throw new Error("a transaction ends twice");
    await must(statement.backend, new Statement(how));
    this.#idle.push(statement.backend);
  }

  async #waits(pid: number): Promise<boolean> {
    const { rows } = await must(
      this.#observer,
      new Statement("select pg_catalog.cardinality(pg_catalog.pg_blocking_pids($1)) > 0", [
        { oid: 23, text: String(pid) },
      ]),
    );
    return rows[0]?.[0] === "t";
  }
}

/** While what it waits for is there, so that nothing is left to chance. */
const waitingFirst = (a: OpenStatement, b: OpenStatement): number =>
  Number(a.answer !== undefined) - Number(b.answer !== undefined);

const asText = (text: string): BoundValue => ({ oid: 25, text });

/** Settings of the transaction: `sim.now()` and the audit read them. */
const STAMP = `select set_config('sim.now', $1, true), set_config('sim.call', $2, true), set_config('sim.statement', $3, true), set_config('sim.sent', $4, true)`;

async function must(backend: Backend, statement: Statement): Promise<StatementResult> {
  const result = await backend.run(statement);
  if (result.error) throw result.error;
  return result;
}
