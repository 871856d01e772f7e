import type { Expression, ExpressionBuilder, Kysely, Selectable, SqlBool } from "kysely";
import type { Answer, Changes } from "./changes.ts";
import type { PipelineTable } from "./columns.ts";
import type { RelatedRows } from "./locks.ts";

export type Ready<DB, T extends keyof DB> = (eb: ExpressionBuilder<DB, T>) => Expression<SqlBool>;

/** A handle that can only read. */
export type ReadDb<DB> = Pick<Kysely<DB>, "selectFrom">;

/** The claimed row, before anything else was loaded. */
export interface Claimed<DB, Main extends PipelineTable<DB>> {
  readonly row: Selectable<DB[Main]>;
  /** The database's time of the claim. */
  readonly now: Date;
}

/** The row with its related rows, all locked. */
export interface Loaded<DB, Main extends PipelineTable<DB>, L> extends Claimed<DB, Main> {
  /** The related rows, by the name of their lock. */
  readonly related: { readonly [K in keyof L]: RelatedRows<DB, L[K]> };
}

/** What `process` sees: plain data, no database. */
export interface Snapshot<DB, Main extends PipelineTable<DB>, L, X> extends Loaded<DB, Main, L> {
  /** What `load` returned. */
  readonly extra: X;
  /** 1 for the first attempt since the last accepted apply. */
  readonly attempt: number;
  /**
   * An earlier attempt died over this row, and nobody knows how far it came: what it may have done at providers is found
   * by `key`.
   */
  readonly prevLockExpired: boolean;
  /**
   * The idempotency key for providers: the same for every attempt at this pass, also after a failure or a crash,
   * and a new one after every accepted apply.
   */
  readonly key: string;
  /** Aborts when the lock is lost or the time is nearly up. */
  readonly signal: AbortSignal;
}

export interface Answers<DB, Main extends PipelineTable<DB>, L> {
  /** Write these changes, if the row and its related rows are still ours. */
  readonly apply: (changes: Changes<DB, Main, L>) => Answer<DB, Main, L>;
  /** Not now: give the row back and look again soon (0.5, 1, 2, then every 5 s). Does not count as an attempt. */
  readonly retry: (reason: string) => Answer<DB, Main, L>;
}

/** The locks as a pass sees them: with `decide`, which answers names `N`, each may be missing. */
export type Needed<L, N> = undefined extends N ? L : { readonly [K in keyof L]?: L[K] };

export interface StateSpec<DB, Main extends PipelineTable<DB>, S, L, X, N = undefined> {
  /**
   * Which rows are in this state. States of one table must not overlap. Becomes an index predicate: it may not call
   * functions that change with time.
   */
  readonly ready: Ready<DB, Main>;
  /** Seconds between two passes over a row that stays in this state, ±10 %. @default 15 */
  readonly everySeconds?: number;
  /**
   * Rows of other tables that a pass needs: all of them are locked before the row is read for `process`, or none, and
   * then the row comes again soon with its owner kept. @default none
   */
  readonly locks?: L;
  /** Names those of `locks` that this pass needs, by a cheap look that only reads; none: `[]`. @default all */
  readonly decide?: (db: ReadDb<DB>, claimed: Claimed<DB, Main>) => Promise<N>;
  /** Reads what `process` needs beside the rows that are locked. */
  readonly load?: (db: ReadDb<DB>, loaded: Loaded<DB, Main, Needed<L, N>>) => Promise<X>;
  /** The work. No database in scope; side effects at providers carry `key`. */
  readonly process: (
    snapshot: Snapshot<DB, Main, Needed<L, N>, X> & Answers<DB, Main, Needed<L, N>>,
    services: S,
  ) => Promise<Answer<DB, Main, Needed<L, N>>> | Answer<DB, Main, Needed<L, N>>;
  /** Undoes side effects after the apply was definitely lost to another holder. Never called for an unknown outcome. */
  readonly onStale?: (
    snapshot: Snapshot<DB, Main, Needed<L, N>, X>,
    changes: Changes<DB, Main, Needed<L, N>>,
    services: S,
  ) => Promise<void>;
  /** Names what may be left behind when an apply is lost and nothing undoes it; logged at error level. */
  readonly orphan?: (changes: Changes<DB, Main, Needed<L, N>>) => string | undefined;
}

export interface State<DB, Main extends PipelineTable<DB>, S, L, X, N = undefined> {
  readonly spec: StateSpec<DB, Main, S, L, X, N>;
  /** Runs `process` on plain data; what unit tests call. */
  process(snapshot: Snapshot<DB, Main, Needed<L, N>, X>, services: S): Promise<Answer<DB, Main, Needed<L, N>>>;
}
