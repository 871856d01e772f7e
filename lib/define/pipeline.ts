import { MillraceError } from "../errors.ts";
import type { Answer, Changes } from "./changes.ts";
import type { PipelineTable } from "./columns.ts";
import {
  checkLocks,
  type LockKinds,
  type LockOf,
  type Locks,
  lockKinds,
  type NoLocks,
  type RelatedLocks,
} from "./locks.ts";
import { isPipelineName } from "./names.ts";
import {
  between,
  type CompleteOptions,
  completeOptions,
  EVERY_BOUNDS,
  EVERY_SECONDS,
  type PipelineOptions,
} from "./options.ts";
import { type ReadyText, readyText } from "./ready.ts";
import type { State, StateSpec } from "./state.ts";

/** A state as the engine sees it: its name, its condition as text, and the user's code with its types erased. */
export interface StateDefinition {
  readonly name: string;
  readonly ready: ReadyText;
  readonly everySeconds: number;
  readonly locks: RelatedLocks;
  readonly spec: ErasedSpec;
}

/**
 * The one place where the user's types end: the engine moves rows it knows nothing of. What goes in comes from the
 * table that the state was typed for.
 */
// biome-ignore lint/suspicious/noExplicitAny: the erasure point; everything on both sides of it is typed
export type ErasedSpec = StateSpec<any, any, any, any, any, any>;

/** A parent that its children make way for. */
export interface YieldTo {
  /** The parents' table. */
  readonly table: string;
  /** Column of the children that names the parent. */
  readonly column: string;
}

/** A pipeline: a named set of states over one table. */
export interface Pipeline {
  readonly name: string;
  readonly table: string;
  readonly states: readonly StateDefinition[];
  readonly options: CompleteOptions;
  readonly yieldTo: readonly YieldTo[];
}

/** A pipeline that still knows its services, so that a registry of another application does not take it. */
export interface TypedPipeline<S> extends Pipeline {
  readonly __services?: (services: S) => void;
}

/** Options of a pipeline that name other tables. */
export interface TableOptions extends PipelineOptions {
  /**
   * Parents that lock all rows of this table as their children. While such a parent waits for its children or works on
   * them, nobody else takes them: no pipeline of the table, and none that locks its rows as related ones. Only rows
   * that carry a taker's own expired lock are taken all the same. The other way round, a parent takes children that
   * have no live lock, whoever owns them. @default none
   */
  // biome-ignore lint/suspicious/noExplicitAny: any table, null or not
  readonly yieldTo?: readonly LockOf<any, false, any>[];
}

/** The vocabulary of one table. */
export interface OnTable<DB, Main extends PipelineTable<DB>, S> extends LockKinds<DB, Main> {
  /**
   * Defines a state; keep the order `ready, everySeconds, locks, decide, load, process`, in which TypeScript infers.
   */
  state<
    const L extends Locks = NoLocks,
    const N extends readonly (keyof L & string)[] | undefined = undefined,
    X = undefined,
  >(spec: StateSpec<DB, Main, S, L, X, N>): State<DB, Main, S, L, X, N>;
  /**
   * Lists the states of a pipeline. `pipeline("volumes", { submitted })` is the same as
   * `pipeline("volumes", { submitted }, PIPELINE_DEFAULTS)`.
   * @throws PIPELINE_NAME, NO_STATES, OPTION, OPTION_RELATION, READY_NOT_IMMUTABLE, READY_EMPTY, LOCK_OWN_TABLE,
   * LOCK_TABLE_TWICE, YIELD_KIND
   */
  pipeline(
    name: string,
    // biome-ignore lint/suspicious/noExplicitAny: states of one pipeline lock and load different things
    states: Readonly<Record<string, State<DB, Main, S, any, any, any>>>,
    options?: TableOptions,
  ): TypedPipeline<S>;
}

/** Binds the vocabulary to one database type and one services type; the only generics a user writes. */
export function pipelinesFor<DB, S>() {
  return {
    /** The vocabulary for one table. */
    on<Main extends PipelineTable<DB>>(table: Main): OnTable<DB, Main, S> {
      return {
        ...lockKinds<DB, Main>(table),
        state: (spec) => ({
          spec,
          process: async (snapshot, services) => spec.process({ ...snapshot, ...answers() }, services),
        }),
        pipeline: (name, states, options = {}) => definePipeline(table, name, states, options),
      };
    },
  };
}

function answers<DB, Main extends PipelineTable<DB>, L>() {
  return {
    apply: (changes: Changes<DB, Main, L>): Answer<DB, Main, L> => ({ kind: "apply", changes }),
    retry: (reason: string): Answer<DB, Main, L> => ({ kind: "retry", reason }),
  };
}

function definePipeline(
  table: string,
  name: string,
  states: Readonly<Record<string, { readonly spec: ErasedSpec }>>,
  { yieldTo = [], ...options }: TableOptions,
): Pipeline {
  // ":" separates a pipeline's name and an id in lock_owner, and a statement's comment carries the name
  if (!isPipelineName(name)) throw new MillraceError("PIPELINE_NAME", { name });
  const entries = Object.entries(states);
  if (entries.length === 0) throw new MillraceError("NO_STATES", { name });
  return {
    name,
    table,
    options: completeOptions(name, options),
    yieldTo: yieldTo.map((lock) => {
      if (lock.kind !== "parent") throw new MillraceError("YIELD_KIND", { name, kind: lock.kind });
      return { table: lock.table, column: lock.column };
    }),
    states: entries.map(([state, { spec }]) => {
      const everySeconds = spec.everySeconds ?? EVERY_SECONDS;
      between(`${name}.${state}`, "everySeconds", everySeconds, ...EVERY_BOUNDS);
      const locks: RelatedLocks = spec.locks ?? {};
      checkLocks(`${name}.${state}`, table, locks);
      return { name: state, ready: readyText(`${name}.${state}`, spec.ready as never), everySeconds, locks, spec };
    }),
  };
}
