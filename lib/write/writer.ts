import type { Selectable, Transaction } from "kysely";
import type { Changes, NewRow, Patch } from "../define/changes.ts";
import type { IntentPatch, PipelineTable } from "../define/columns.ts";
import type { Registry } from "../define/registry.ts";
import { toInsertGroups } from "../engine/changes.ts";
import { sendHints } from "../engine/hint.ts";
import type { Clock, HintQueue } from "../engine/ports.ts";
import { MillraceError } from "../errors.ts";
import { emitSql } from "../sql/emit.ts";
import { requestSql } from "../sql/request.ts";
import { writeSql } from "../sql/write.ts";
import { type HeldRows, type Hold, tryHold } from "./hold.ts";
import { checkSeconds, untilHad } from "./patience.ts";
import { type WriterDatabase, withUniqueName } from "./unique-name.ts";
import { checkId, type Inserts, pipelinesOf, plainRow, toInserts, toRowWrite } from "./values.ts";

export interface UpdateOptions<DB, T extends PipelineTable<DB>> {
  /** Longest wait for a row that is held. @default 3 */
  readonly waitSeconds?: number;
  /** New rows of any table, in the same statement. */
  readonly insert?: Changes<DB, T>["insert"];
}

export interface LockOptions {
  /** Longest wait for rows that are held. @default 3 */
  readonly waitSeconds?: number;
  /** How long the rows are ours, from each write on. Work that takes longer may lose them. @default 30 */
  readonly lockSeconds?: number;
}

/** For code outside pipelines that changes their rows. */
export interface Writer<DB> {
  /**
   * Writes a row as soon as nobody holds it, and makes it due at once. An expired lock counts as free and is cleared, so
   * that its slow holder's answer changes nothing. Hints the pipelines of the table. Answers the row.
   * @throws ROW_LOCKED, NO_SUCH_ROW, ID_MALFORMED, TABLE_UNKNOWN, PATCH_COLUMN, VALUE_UNSUPPORTED, OPTION
   */
  update<T extends PipelineTable<DB>>(
    table: T,
    id: string,
    set: Patch<DB, T>,
    options?: UpdateOptions<DB, T>,
  ): Promise<Selectable<DB[T]>>;
  /**
   * Holds rows while `work` runs: all or none, in the order in which everybody locks rows. They are given back in any
   * case, also when `work` throws. Hints the pipelines of the table afterwards. `rows` stand in the order of the ids.
   * @throws ROW_LOCKED, NO_SUCH_ROW, ID_MALFORMED, TABLE_UNKNOWN, OPTION, and what `work` throws
   */
  withLock<T extends PipelineTable<DB>, R>(
    table: T,
    ids: string | readonly string[],
    options: LockOptions,
    work: (rows: readonly Selectable<DB[T]>[], held: HeldRows<DB, T>) => Promise<R>,
  ): Promise<R>;
  /**
   * Stores what somebody wants of a row, held or not, and makes the row due at once: free, held, backed off or dead
   * alike. A pass that runs at this moment is followed by another. Hints the pipelines of the table. `insert`: new rows
   * of any table, in the same statement.
   * @throws ID_MALFORMED, TABLE_UNKNOWN, NO_SUCH_ROW, VALUE_UNSUPPORTED
   */
  request<T extends PipelineTable<DB>>(
    table: T,
    id: string,
    intent: IntentPatch<DB, T>,
    options?: { readonly insert?: Changes<DB, T>["insert"] },
  ): Promise<void>;
  /**
   * Inserts rows in one statement; NOW is its instant. Rows that name their `id` are inserted once whatever happens to
   * answers; without, a lost answer is an error, since a repetition might insert them twice.
   * @throws DATABASE_UNANSWERED, VALUE_UNSUPPORTED
   */
  emit<T extends keyof DB & string>(table: T, rows: readonly NewRow<DB, T>[]): Promise<void>;
  /**
   * A short transaction in which nobody else works with the same name in this namespace: look whether it is taken, and
   * insert. The transaction may be run again when its answer was lost: make ids before it, and take an own one for done.
   * Keep it to a few queries: it is open meanwhile. Waits at most 10 s for others with the name.
   * @throws ROW_LOCKED, and what `work` throws
   */
  withUniqueName<R>(namespace: string, name: string, work: (tx: Transaction<DB>) => Promise<R>): Promise<R>;
}

export interface WriterOptions<DB> {
  readonly database: WriterDatabase<DB>;
  readonly registry: Registry;
  readonly hints: HintQueue;
  /** Time for waiting. @default the process's own */
  readonly clock?: Clock;
}

export function writerOf<DB>(options: WriterOptions<DB> & { readonly clock: Clock }): Writer<DB> {
  const { database, registry, hints, clock } = options;
  const hint = (table: string) =>
    sendHints(
      hints,
      registry.of(table).map((p) => p.name),
    );
  return {
    async update(table, id, set, { waitSeconds = 3, insert } = {}) {
      checkId(id);
      pipelinesOf(registry, table);
      const token = crypto.randomUUID();
      const write = writeSql(registry, table, toRowWrite(table, id, set, token), {
        inserts: toInserts(id, token, insert as Inserts),
      });
      const row = await untilHad(clock, waitSeconds, async () => {
        const answer = (await database.run(write)).rows[0];
        if (answer === undefined || answer.millrace_result === "missing")
          throw new MillraceError("NO_SUCH_ROW", { table, id });
        return answer.millrace_result === "held" ? undefined : answer;
      });
      if (row === undefined) throw new MillraceError("ROW_LOCKED", { table, id, seconds: waitSeconds });
      await hint(table);
      return plainRow(row);
    },
    async withLock<T extends PipelineTable<DB>, R>(
      table: T,
      given: string | readonly string[],
      { waitSeconds = 3, lockSeconds = 30 }: LockOptions,
      work: (rows: readonly Selectable<DB[T]>[], held: HeldRows<DB, T>) => Promise<R>,
    ): Promise<R> {
      const ids = [...new Set((typeof given === "string" ? [given] : given).map((id) => id.toLowerCase()))];
      for (const id of ids) checkId(id);
      pipelinesOf(registry, table);
      checkSeconds("lockSeconds", lockSeconds, 1);
      const token = crypto.randomUUID();
      const hold = await untilHad(clock, waitSeconds, () => tryHold(options, table, ids, lockSeconds, token));
      if (hold === undefined)
        throw new MillraceError("ROW_LOCKED", { table, id: ids.join(", "), seconds: waitSeconds });
      try {
        return await work(hold.rows as never, heldRows<DB, T>(hold));
      } finally {
        await hold.giveBack().catch(leaveToExpire);
        await hint(table);
      }
    },
    async request(table, id, intent, { insert } = {}) {
      checkId(id);
      const pipelines = pipelinesOf(registry, table);
      const token = crypto.randomUUID();
      const write = toRowWrite(table, id, intent, token);
      const inserts = toInserts(id, token, insert as Inserts);
      const found =
        inserts.length === 0 && write.nows.length === 0
          ? (await database.run(requestSql(table, pipelines, [id], write.set), { patient: true })).rows.length > 0
          : (await database.run(writeSql(registry, table, write, { inserts, held: true }), { patient: true })).rows[0]
              ?.millrace_result === "done";
      if (!found) throw new MillraceError("NO_SUCH_ROW", { table, id });
      await hint(table);
    },
    async emit(table, rows) {
      if (rows.length === 0) return;
      const key = { id: crypto.randomUUID(), token: crypto.randomUUID() };
      const groups = toInsertGroups([{ ...key, changes: { insert: { [table]: rows } } }]);
      const once = groups.every((group) => group.columns.includes("id"));
      await database.run(emitSql(table, key, groups), { patient: true, ...(once ? {} : { withinSeconds: 0 }) });
    },
    withUniqueName: (namespace, name, work) => withUniqueName(options, namespace, name, work),
  };
}

const heldRows = <DB, T extends PipelineTable<DB>>(hold: Hold): HeldRows<DB, T> => ({
  update: async (id, set, { insert } = {}) =>
    (await hold.update([id.toLowerCase()], set, insert as Inserts))[0] as never,
  updateAll: (ids, set, { insert } = {}) =>
    hold.update(
      ids.map((id) => id.toLowerCase()),
      set,
      insert as Inserts,
    ) as never,
  delete: (id) => hold.delete(id.toLowerCase()),
});

/** The work is done by now; rows that could not be given back become free when their lock expires. */
function leaveToExpire(error: unknown): void {
  if (error instanceof MillraceError && error.code.startsWith("DATABASE_")) return;
  throw error;
}
