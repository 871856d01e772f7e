import type { ReadDb } from "../define/state.ts";
import type { Statement } from "../sql/statement.ts";
import type { Events } from "./events.ts";
import type { Item } from "./item.ts";

/** What an attempt at a statement came to. */
export interface Answered<Row> {
  readonly rows: readonly Row[];
  /** True when an earlier attempt got no answer, so that this one may be a repetition of work already done. */
  readonly unanswered: boolean;
}

export interface RunOptions {
  /** Longest wait for one answer, in seconds. @default the adapter's */
  readonly timeoutSeconds?: number;
  /** Longest time for all repetitions together, in seconds. @default the adapter's */
  readonly withinSeconds?: number;
  /** Repeat lock timeouts too, until the time is up. @default false: they are thrown, so that a batch can be split */
  readonly patient?: boolean;
}

/** Runs statements; repeats what may be repeated. */
export interface Database {
  /**
   * @throws STATEMENT_FAILED (details.sqlState), ROW_FENCED, DATABASE_UNANSWERED, DATABASE_RESUMING, DATABASE_REFUSED
   */
  run<Row>(statement: Statement<Row>, options?: RunOptions): Promise<Answered<Row>>;
}

export type SendOutcome = "accepted" | "refused";

/** The queues that carry items to workers. */
export interface ItemQueue {
  /** Sends every item; answers an outcome for each, in order. An item whose send got no answer counts as accepted. */
  send(items: readonly Item[]): Promise<readonly SendOutcome[]>;
}

/** Where hints go. Losing one costs at most a schedule period. */
export interface HintQueue {
  /** Never throws: a hint is a favour. */
  send(hints: readonly { readonly body: string; readonly delaySeconds: number }[]): Promise<void>;
}

/** Starts a heartbeater where none is alive. */
export type WakeHeartbeater = () => Promise<void>;

/** Time for waiting only; no lock is ever judged by it. */
export interface Clock {
  now(): number;
  /** Resolves after so many milliseconds, or at once when the signal aborts. */
  wait(ms: number, signal?: AbortSignal): Promise<void>;
}

export interface Ports {
  readonly database: Database;
  /** What `load` reads with: it can only select. */
  // biome-ignore lint/suspicious/noExplicitAny: the engine knows no schema
  readonly reader: ReadDb<any>;
  readonly items: ItemQueue;
  readonly hints: HintQueue;
  readonly wakeHeartbeater: WakeHeartbeater;
  readonly events: Events;
  readonly clock: Clock;
  readonly random: () => number;
  /** Milliseconds until the function is stopped. */
  readonly timeLeft: () => number;
}
