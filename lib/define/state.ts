import type { Expression, ExpressionBuilder, Kysely, Selectable, SqlBool } from "kysely";
import type { Answer, Changes } from "./changes.ts";
import type { PipelineTable } from "./columns.ts";

export type Ready<DB, T extends keyof DB> = (eb: ExpressionBuilder<DB, T>) => Expression<SqlBool>;

/** A handle that can only read. */
export type ReadDb<DB> = Pick<Kysely<DB>, "selectFrom">;

/** The claimed row, before anything else was loaded. */
export interface Claimed<DB, Main extends PipelineTable<DB>> {
  readonly row: Selectable<DB[Main]>;
  /** The database's time of the claim. */
  readonly now: Date;
}

/** What `process` sees: plain data, no database. */
export interface Snapshot<DB, Main extends PipelineTable<DB>, X> extends Claimed<DB, Main> {
  /** What `load` returned. */
  readonly extra: X;
  /** 1 for the first attempt since the last accepted apply. */
  readonly attempt: number;
  /**
   * The idempotency key for providers: the same for every attempt at this pass, also after a failure or a crash,
   * and a new one after every accepted apply.
   */
  readonly key: string;
  /** Aborts when the lock is lost or the time is nearly up. */
  readonly signal: AbortSignal;
}

export interface Answers<DB, Main extends PipelineTable<DB>> {
  /** Write these changes, if the row is still ours. */
  readonly apply: (changes: Changes<DB, Main>) => Answer<DB, Main>;
  /** Not now: give the row back and look again soon (0.5, 1, 2, then every 5 s). Does not count as an attempt. */
  readonly retry: (reason: string) => Answer<DB, Main>;
}

export interface StateSpec<DB, Main extends PipelineTable<DB>, S, X> {
  /**
   * Which rows are in this state. States of one table must not overlap. Becomes an index predicate: it may not call
   * functions that change with time.
   */
  readonly ready: Ready<DB, Main>;
  /** Seconds between two passes over a row that stays in this state, ±10 %. @default 15 */
  readonly everySeconds?: number;
  /** Reads what `process` needs beside the row. */
  readonly load?: (db: ReadDb<DB>, claimed: Claimed<DB, Main>) => Promise<X>;
  /** The work. No database in scope; side effects at providers carry `key`. */
  readonly process: (
    snapshot: Snapshot<DB, Main, X> & Answers<DB, Main>,
    services: S,
  ) => Promise<Answer<DB, Main>> | Answer<DB, Main>;
  /** Undoes side effects after the apply was definitely lost to another holder. Never called for an unknown outcome. */
  readonly onStale?: (snapshot: Snapshot<DB, Main, X>, changes: Changes<DB, Main>, services: S) => Promise<void>;
  /** Names what may be left behind when an apply is lost and nothing undoes it; logged at error level. */
  readonly orphan?: (changes: Changes<DB, Main>) => string | undefined;
}

export interface State<DB, Main extends PipelineTable<DB>, S, X> {
  readonly spec: StateSpec<DB, Main, S, X>;
  /** Runs `process` on plain data; what unit tests call. */
  process(snapshot: Snapshot<DB, Main, X>, services: S): Promise<Answer<DB, Main>>;
}
