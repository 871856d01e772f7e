import type { Selectable } from "kysely";
import type { Changes, Patch } from "../define/changes.ts";
import type { PipelineTable } from "../define/columns.ts";
import type { Registry } from "../define/registry.ts";
import type { Database } from "../engine/ports.ts";
import { isRefusal, MillraceError } from "../errors.ts";
import { type HoldRow, holdSql } from "../sql/hold.ts";
import { giveBackSql, heldDeleteSql, heldUpdateSql } from "../sql/write.ts";
import { type Inserts, plainRow, toInserts, toRowWrite } from "./values.ts";

/** Rows that a writer holds. Each write is guarded by the row's token and gives it a new one. */
export interface HeldRows<DB, T extends PipelineTable<DB>> {
  /**
   * Writes a held row, which is due at once when it is given back; its lock lasts `lockSeconds` from here on.
   * `insert`: new rows of any table, in the same statement.
   * @throws LOCK_LOST, PATCH_COLUMN, VALUE_UNSUPPORTED
   */
  update(
    id: string,
    set: Patch<DB, T>,
    options?: { readonly insert?: Changes<DB, T>["insert"] },
  ): Promise<Selectable<DB[T]>>;
  /**
   * Writes the same to several held rows in one statement: all of them, or none when the lock of any was lost. Answers
   * the rows in the order of the ids. Otherwise as `update`.
   * @throws LOCK_LOST, PATCH_COLUMN, VALUE_UNSUPPORTED
   */
  updateAll(
    ids: readonly string[],
    set: Patch<DB, T>,
    options?: { readonly insert?: Changes<DB, T>["insert"] },
  ): Promise<readonly Selectable<DB[T]>[]>;
  /** Deletes a held row. @throws LOCK_LOST */
  delete(id: string): Promise<void>;
}

interface Lock {
  /** The token that the row carries; with a second one, a write got no answer. */
  tokens: readonly string[];
  readonly owner: string | null;
}

type Row = Readonly<Record<string, unknown>>;

/** Rows that were locked together. */
export class Hold {
  readonly rows: readonly Row[];
  readonly #database: Database;
  readonly #registry: Registry;
  readonly #table: string;
  readonly #seconds: number;
  readonly #locks = new Map<string, Lock>();
  #last: Promise<unknown> = Promise.resolve();

  constructor(
    { database, registry }: { readonly database: Database; readonly registry: Registry },
    table: string,
    seconds: number,
    token: string,
    rows: readonly (HoldRow & Row)[],
  ) {
    this.#database = database;
    this.#registry = registry;
    this.#table = table;
    this.#seconds = seconds;
    this.rows = rows.map((row) => plainRow<Row>(row));
    for (const { millrace_id: id, millrace_owner: owner } of rows) this.#locks.set(id, { tokens: [token], owner });
  }

  /** All of them or none; new rows go with the first. */
  update(given: readonly string[], set: Row, insert: Inserts | undefined): Promise<readonly Row[]> {
    return this.#inTurn(async () => {
      const ids = [...new Set(given)];
      if (ids.length === 0) return [];
      const held = ids.map((id) => ({ id, ...this.#lock(id) }));
      const next = crypto.randomUUID();
      const writes = held.map(({ id, token }) => ({ ...toRowWrite(this.#table, id, set, token), next }));
      const groups = toInserts(ids[0]!, next, insert);
      for (const { lock, token } of held) lock.tokens = [token, next];
      const { rows } = await this.#database
        .run(heldUpdateSql(this.#registry, this.#table, writes, this.#seconds, groups), { patient: true })
        .catch((error: unknown) => {
          // refused by the database: nothing was written, the token is what it was
          if (error instanceof MillraceError && isRefusal(error.code) && error.details["unanswered"] !== true)
            for (const { lock, token } of held) lock.tokens = [token];
          throw error;
        });
      const results = new Map(rows.map((row) => [row.millrace_id, row]));
      const lost = held.find(({ id }) => ["held", "missing"].includes(results.get(id)!.millrace_result));
      if (lost !== undefined) {
        // nothing was written: the others are still ours under the token that they had
        for (const { id, lock, token } of held) if (results.get(id)!.millrace_result === "ours") lock.tokens = [token];
        throw this.#lost(lost.id);
      }
      for (const { lock } of held) lock.tokens = [next];
      return given.map((id) => plainRow<Row>(results.get(id)!));
    });
  }

  delete(id: string): Promise<void> {
    return this.#inTurn(async () => {
      const { token } = this.#lock(id);
      const { rows, unanswered } = await this.#database.run(heldDeleteSql(this.#table, { id, token }), {
        patient: true,
      });
      const result = rows[0]?.millrace_result;
      if (result !== "done" && !(result === "missing" && unanswered)) throw this.#lost(id);
      this.#locks.delete(id);
    });
  }

  /** Gives back what is still ours. */
  async giveBack(): Promise<void> {
    await this.#last;
    const keys = [...this.#locks].flatMap(([id, { tokens, owner }]) => tokens.map((token) => ({ id, token, owner })));
    if (keys.length > 0) await this.#database.run(giveBackSql(this.#registry, this.#table, keys), { patient: true });
  }

  /** Writes of one holder go one by one: each needs the token that the one before it left. */
  #inTurn<T>(write: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(write);
    this.#last = turn.catch(() => undefined);
    return turn;
  }

  #lock(id: string): { readonly token: string; readonly lock: Lock } {
    const lock = this.#locks.get(id);
    const [token, unknown] = lock?.tokens ?? [];
    if (lock === undefined || token === undefined || unknown !== undefined) throw this.#lost(id);
    return { token, lock };
  }

  #lost(id: string): MillraceError {
    return new MillraceError("LOCK_LOST", { pipeline: this.#table, id });
  }
}

/** One try: the rows, all locked; undefined when some is held. @throws NO_SUCH_ROW */
export async function tryHold(
  { database, registry }: { readonly database: Database; readonly registry: Registry },
  table: string,
  ids: readonly string[],
  seconds: number,
  token: string,
): Promise<Hold | undefined> {
  const { rows } = await database.run(holdSql(registry, table, ids, token, seconds));
  const missing = rows.find((r) => r.millrace_result === "missing");
  if (missing !== undefined) throw new MillraceError("NO_SUCH_ROW", { table, id: missing.millrace_id });
  if (rows.some((r) => r.millrace_result !== "ours")) return undefined;
  const byId = new Map(rows.map((r) => [r.millrace_id, r]));
  return new Hold(
    { database, registry },
    table,
    seconds,
    token,
    ids.map((id) => byId.get(id.toLowerCase())!),
  );
}
