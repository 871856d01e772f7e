import type { ExecuteStatementCommand, RDSDataClient } from "@aws-sdk/client-rds-data";
import type { ApiFailure } from "../../infra/local/data-api/failure.ts";
import type { OpenStatement } from "./database.ts";
import type { Process } from "./process.ts";
import type { Move, Pending, World } from "./world.ts";

/** What every call names. */
export const TARGET = {
  resourceArn: "arn:aws:rds:us-east-1:000000000000:cluster:simulated",
  secretArn: "arn:aws:secretsmanager:us-east-1:000000000000:secret:simulated",
  database: "simulated",
};

/** Most transactions that are open at once. */
const MOST_OPEN = 3;
/** Each statement takes so long, so that no two have the same instant. */
const STATEMENT_MS = 2;

type Phase =
  | { readonly is: "sent" }
  | { readonly is: "waits"; readonly statement: OpenStatement }
  | { readonly is: "open"; readonly statement: OpenStatement }
  | { readonly is: "answered"; readonly answer: Answer };

type Answer = { readonly body: object } | { readonly error: Error };

/** A client of the Data API whose calls are carried out step by step. */
export function dataApiClient(world: World, process: Process): RDSDataClient {
  const send = (command: ExecuteStatementCommand, { abortSignal }: { readonly abortSignal?: AbortSignal } = {}) =>
    new Promise((resolve, reject) => {
      const call = new Call(world, process, command.input, (answer) => {
        if ("body" in answer) resolve(answer.body);
        else reject(answer.error);
      });
      abortSignal?.addEventListener("abort", () => {
        call.forget();
        reject(failure("AbortError", "Request aborted"));
      });
    });
  return { send } as unknown as RDSDataClient;
}

/**
 * One call of ExecuteStatement: sent, executed, committed, answered. Between any two of these other things happen, and
 * at each of them it can go wrong.
 */
class Call implements Pending {
  readonly owner: Process;
  readonly what: string;
  readonly #world: World;
  readonly #input: object;
  #settle: ((answer: Answer) => void) | undefined;
  #phase: Phase = { is: "sent" };
  #n = 0;

  constructor(world: World, owner: Process, input: object, settle: (answer: Answer) => void) {
    this.#world = world;
    this.owner = owner;
    this.#input = input;
    this.#settle = settle;
    this.what = /\/\* millrace:([^*]*) \*\//.exec((input as { sql: string }).sql)?.[1] ?? "a query";
    world.pending.add(this);
  }

  /** Its statement waits for a lock. */
  get waits(): boolean {
    return this.#phase.is === "waits";
  }

  /** The caller waits no more. */
  forget(): void {
    this.#settle = undefined;
  }

  moves(): readonly Move[] {
    const phase = this.#phase;
    if (phase.is === "sent") return this.#whenSent();
    if (phase.is === "waits") return this.#whenWaiting(phase.statement);
    if (phase.is === "open") return this.#whenOpen(phase.statement);
    return this.owner.frozenUntil > this.#world.time.now ? [] : this.#whenAnswered(phase.answer);
  }

  /** The transaction goes away with the database. */
  lose(): void {
    if (this.#phase.is === "waits" || this.#phase.is === "open") this.#answer({ error: unavailable() });
  }

  #whenSent(): readonly Move[] {
    const { database, time, resumingUntil } = this.#world;
    if (waiting(this.#world) !== undefined) return [];
    const resuming = failure("DatabaseResumingException", "the database is resuming", 400);
    if (time.now < resumingUntil)
      return [
        {
          what: "the database is resuming",
          weight: 1,
          fault: "resuming",
          run: () => this.#deliver({ error: resuming }),
        },
      ];
    const lost = failure("TimeoutError", "socket hang up");
    const throttled = failure("ThrottlingException", "Rate exceeded", 400);
    return [
      { what: "executed and answered", weight: 24, run: () => this.#execute("answer") },
      ...(database.open < MOST_OPEN
        ? [{ what: "executed, not committed yet", weight: 8, run: () => this.#execute("open") }]
        : []),
      { what: "committed, answer under way", weight: 4, run: () => this.#execute("commit") },
      { what: "lost on its way", weight: 0.6, fault: "call lost", run: () => this.#deliver({ error: lost }) },
      { what: "refused: throttled", weight: 0.4, fault: "throttled", run: () => this.#deliver({ error: throttled }) },
      {
        what: "answered with 503 and not executed",
        weight: 0.4,
        fault: "503",
        run: () => this.#deliver({ error: unavailable() }),
      },
    ];
  }

  #whenWaiting(statement: OpenStatement): readonly Move[] {
    if (this.#world.calm) return [];
    const timeOut = async () => {
      await this.#world.database.timeOut(statement);
      this.#deliver({
        error: failure(
          "DatabaseErrorException",
          "ERROR: canceling statement due to lock timeout; SQLState: 55P03",
          400,
        ),
      });
    };
    return [{ what: "waited too long for a lock", weight: 1, fault: "lock timeout", run: timeOut }];
  }

  #whenOpen(statement: OpenStatement): readonly Move[] {
    const commit = async (then: () => void) => {
      await this.#commit(statement);
      then();
    };
    const rollBack = async () => {
      await this.#world.database.rollBack(statement);
      this.#deliver({ error: unavailable() });
      await letGoOn(this.#world);
    };
    return [
      { what: "committed and answered", weight: 10, run: () => commit(() => this.#deliver(answerOf(statement))) },
      { what: "committed, answer under way", weight: 4, run: () => commit(() => this.#answer(answerOf(statement))) },
      { what: "rolled back at its commit", weight: 1.5, fault: "transaction aborted", run: rollBack },
    ];
  }

  #whenAnswered(answer: Answer): readonly Move[] {
    const broken = failure("TimeoutError", "socket hang up");
    return [
      { what: "answered", weight: 10, run: () => this.#deliver(answer) },
      {
        what: "answer lost, the connection broke",
        weight: 2,
        fault: "answer lost",
        run: () => this.#deliver({ error: broken }),
      },
      // until its own patience is at an end the caller hears nothing
      { what: "answer lost in silence", weight: 0.7, fault: "answer lost", run: () => this.#gone() },
    ];
  }

  async #execute(then: "answer" | "commit" | "open"): Promise<void> {
    const world = this.#world;
    this.#n = ++world.statements;
    world.time.now += STATEMENT_MS;
    const now = new Date(world.time.now + world.time.databaseSkew);
    const statement = await world.database.execute(this.#input, { call: this.#n, name: this.what, now });
    if (statement.answer === undefined) {
      this.#phase = { is: "waits", statement };
      world.tell(this.owner.name, `${this.what}: waits for a lock`);
    } else if ("failure" in statement.answer) await this.#failed(statement);
    else if (then === "open") this.#phase = { is: "open", statement };
    else {
      await this.#commit(statement);
      if (then === "answer") this.#deliver(answerOf(statement));
      else this.#answer(answerOf(statement));
    }
  }

  /** Goes on after a wait, if there is an answer now. */
  async goOn(): Promise<void> {
    if (this.#phase.is !== "waits") return;
    const { statement } = this.#phase;
    await this.#world.database.settled(statement);
    if (statement.answer === undefined) return;
    if ("failure" in statement.answer) await this.#failed(statement);
    else this.#phase = { is: "open", statement };
  }

  async #failed(statement: OpenStatement): Promise<void> {
    await this.#world.database.rollBack(statement);
    this.#deliver(answerOf(statement));
    await letGoOn(this.#world);
  }

  async #commit(statement: OpenStatement): Promise<void> {
    await this.#world.database.commit(statement);
    await this.#world.committed();
    await letGoOn(this.#world);
  }

  #answer(answer: Answer): void {
    this.#phase = { is: "answered", answer };
  }

  #deliver(answer: Answer): void {
    this.#gone();
    if (this.owner.state !== "running") return;
    if (this.owner.frozenUntil > this.#world.time.now) {
      this.#world.pending.add(this);
      this.#answer(answer);
    } else this.#settle?.(answer);
  }

  #gone(): void {
    this.#world.pending.delete(this);
  }
}

const calls = (world: World): readonly Call[] => [...world.pending].filter((p) => p instanceof Call);

/** The call whose statement waits for a lock; at most one at a time, or their order would be left to chance. */
const waiting = (world: World): Call | undefined => calls(world).find((call) => call.waits);

async function letGoOn(world: World): Promise<void> {
  await waiting(world)?.goOn();
}

/** The database goes away and comes back: what was not committed is gone. */
export async function failOver(world: World): Promise<void> {
  await world.database.rollBackAll();
  for (const call of calls(world)) call.lose();
}

function answerOf({ answer }: OpenStatement): Answer {
  return answer !== undefined && "body" in answer ? answer : { error: errorOf(answer!.failure) };
}

const errorOf = ({ name, message, status }: ApiFailure): Error => failure(name, message, status);

function failure(name: string, message: string, status?: number): Error {
  const $metadata = status === undefined ? {} : { httpStatusCode: status };
  return Object.assign(new Error(message), { name, $metadata });
}

const unavailable = () => failure("DatabaseUnavailableException", "", 504);
