import type { ColumnType, Generated } from "kysely";

/** The columns that every table with a pipeline carries; `addPipelineColumns()` makes them. */
export interface PipelineColumns {
  created_at: Generated<Date>;
  /** When a pass was last applied, reset or failed. */
  last_processed_at: Generated<Date>;
  /** When the next pass is wanted; null = never. */
  due_at: Generated<Date | null>;
  lock_expires_at: Generated<Date | null>;
  lock_token: Generated<string | null>;
  lock_owner: Generated<string | null>;
}

/** Columns that every table of a pipeline needs, and that only the engine writes. */
export const ENGINE_COLUMNS = [
  "id",
  "created_at",
  "last_processed_at",
  "due_at",
  "lock_expires_at",
  "lock_token",
  "lock_owner",
] as const;

/** The tables of DB that a pipeline can work on. */
export type PipelineTable<DB> = {
  [T in keyof DB & string]: DB[T] extends PipelineColumns ? T : never;
}[keyof DB & string];

/**
 * A column that a write API may set while the row is held: what the caller wants, which a pipeline later carries out.
 * `Intent<boolean>` has a default in the database.
 */
export type Intent<V> = ColumnType<V, V | undefined, V> & { readonly __intent?: true };

type IsIntent<C> = "__intent" extends keyof C ? true : false;

/** The intent columns of table T, as a patch. */
export type IntentPatch<DB, T extends keyof DB> = {
  readonly [K in keyof DB[T] as IsIntent<DB[T][K]> extends true ? K : never]?: DB[T][K] extends ColumnType<
    unknown,
    unknown,
    infer U
  >
    ? U
    : never;
};
