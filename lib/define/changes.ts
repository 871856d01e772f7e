import type { Insertable, Updateable } from "kysely";
import type { ENGINE_COLUMNS, IntentPatch, PipelineTable } from "./columns.ts";
import type { RelatedChanges } from "./locks.ts";

/** Stands for the instant of the statement that writes it: everything one apply writes with NOW is the same instant. */
export const NOW: unique symbol = Symbol.for("millrace.now");
export type Now = typeof NOW;
type OrNow<V> = V | (Date extends V ? Now : never);

/** What a pass may write to its row: any column but the engine's. */
export type Patch<DB, T extends keyof DB> = {
  readonly [K in Exclude<keyof Updateable<DB[T]>, (typeof ENGINE_COLUMNS)[number]>]?: OrNow<
    Exclude<Updateable<DB[T]>[K], undefined>
  >;
};

export type NewRow<DB, T extends keyof DB> = {
  readonly [K in keyof Insertable<DB[T]>]: OrNow<Insertable<DB[T]>[K]>;
};

/** When the next pass is wanted: in so many seconds, at once, or never. */
export type Due = number | "now" | null;

/** What is wanted of a row that nobody needs to hold. */
export interface RowRequest<DB, T extends keyof DB> {
  readonly id: string;
  readonly set?: IntentPatch<DB, T>;
}

/** What a pass wants written, all in one statement or not at all. `L`: the related locks of the state. */
export interface Changes<DB, Main extends PipelineTable<DB>, L = unknown> {
  readonly set?: Patch<DB, Main>;
  /** Changes of related rows, by the name of their lock; a row that is not named is unlocked as it is. */
  readonly related?: [keyof L] extends [never] ? never : { readonly [K in keyof L]?: RelatedChanges<DB, L[K]> };
  /** Wishes for rows of any pipeline, held or not: stored in their intent columns, and the rows are due at once. */
  readonly request?: { readonly [T in PipelineTable<DB>]?: readonly RowRequest<DB, T>[] };
  /** New rows, by table. */
  readonly insert?: { readonly [T in keyof DB & string]?: readonly NewRow<DB, T>[] };
  /** Deletes the row itself. */
  readonly delete?: true;
  /**
   * When the next pass is wanted.
   * @default the state's `everySeconds`; at once, if a column that some `ready` of the table looks at changed
   */
  readonly due?: Due;
}

/** What `process` answers: control flow as data. */
export type Answer<DB, Main extends PipelineTable<DB>, L = unknown> =
  | { readonly kind: "apply"; readonly changes: Changes<DB, Main, L> }
  | { readonly kind: "retry"; readonly reason: string };
