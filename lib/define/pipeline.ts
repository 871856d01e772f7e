import { MillraceError } from "../errors.ts";
import type { Answer, Changes } from "./changes.ts";
import type { PipelineTable } from "./columns.ts";
import { type CompleteOptions, completeOptions, EVERY_SECONDS, type PipelineOptions, positive } from "./options.ts";
import { type ReadyText, readyText } from "./ready.ts";
import type { State, StateSpec } from "./state.ts";

/** A state as the engine sees it: its name, its condition as text, and the user's code with its types erased. */
export interface StateDefinition {
  readonly name: string;
  readonly ready: ReadyText;
  readonly everySeconds: number;
  readonly spec: ErasedSpec;
}

/**
 * The one place where the user's types end: the engine moves rows it knows nothing of. What goes in comes from the
 * table that the state was typed for.
 */
// biome-ignore lint/suspicious/noExplicitAny: the erasure point; everything on both sides of it is typed
export type ErasedSpec = StateSpec<any, any, any, any>;

/** A pipeline: a named set of states over one table. */
export interface Pipeline {
  readonly name: string;
  readonly table: string;
  readonly states: readonly StateDefinition[];
  readonly options: CompleteOptions;
}

/** A pipeline that still knows its services, so that a registry of another application does not take it. */
export interface TypedPipeline<S> extends Pipeline {
  readonly __services?: (services: S) => void;
}

/** The vocabulary of one table. */
export interface OnTable<DB, Main extends PipelineTable<DB>, S> {
  /** Defines a state; keep the order `ready, everySeconds, load, process`, in which TypeScript infers. */
  state<X = undefined>(spec: StateSpec<DB, Main, S, X>): State<DB, Main, S, X>;
  /**
   * Lists the states of a pipeline. `pipeline("volumes", { submitted })` is the same as
   * `pipeline("volumes", { submitted }, PIPELINE_DEFAULTS)`.
   * @throws PIPELINE_NAME, NO_STATES, OPTION, OPTION_RELATION, READY_NOT_IMMUTABLE, READY_EMPTY
   */
  pipeline(
    name: string,
    // biome-ignore lint/suspicious/noExplicitAny: states of one pipeline load different things
    states: Readonly<Record<string, State<DB, Main, S, any>>>,
    options?: PipelineOptions,
  ): TypedPipeline<S>;
}

/** Binds the vocabulary to one database type and one services type; the only generics a user writes. */
export function pipelinesFor<DB, S>() {
  return {
    /** The vocabulary for one table. */
    on<Main extends PipelineTable<DB>>(table: Main): OnTable<DB, Main, S> {
      return {
        state: (spec) => ({
          spec,
          process: async (snapshot, services) => spec.process({ ...snapshot, ...answers<DB, Main>() }, services),
        }),
        pipeline: (name, states, options = {}) => definePipeline(table, name, states, options),
      };
    },
  };
}

function answers<DB, Main extends PipelineTable<DB>>() {
  return {
    apply: (changes: Changes<DB, Main>): Answer<DB, Main> => ({ kind: "apply", changes }),
    retry: (reason: string): Answer<DB, Main> => ({ kind: "retry", reason }),
  };
}

function definePipeline(
  table: string,
  name: string,
  states: Readonly<Record<string, { readonly spec: ErasedSpec }>>,
  options: PipelineOptions,
): Pipeline {
  // ":" separates a pipeline's name and an id in lock_owner, and a statement's comment carries the name
  if (!/^[a-z][a-z0-9-]{0,62}$/.test(name)) throw new MillraceError("PIPELINE_NAME", { name });
  const entries = Object.entries(states);
  if (entries.length === 0) throw new MillraceError("NO_STATES", { name });
  return {
    name,
    table,
    options: completeOptions(name, options),
    states: entries.map(([state, { spec }]) => {
      const everySeconds = spec.everySeconds ?? EVERY_SECONDS;
      positive(`${name}.${state}`, "everySeconds", everySeconds);
      return { name: state, ready: readyText(`${name}.${state}`, spec.ready as never), everySeconds, spec };
    }),
  };
}
