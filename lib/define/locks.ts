import type { Expression, ExpressionBuilder, Selectable, SqlBool } from "kysely";
import { MillraceError } from "../errors.ts";
import type { Patch } from "./changes.ts";
import type { PipelineTable } from "./columns.ts";
import { type ReadyText, readyText } from "./ready.ts";

/** Rows of another table that a pass needs beside its own; all of them or none. */
export type RelatedLock = ChildrenLock | SharedLock | PickLock;

/** Rows that belong to one main row alone, by a foreign key of theirs. `lock_owner` = the pipeline. */
export interface ChildrenLock {
  readonly kind: "children";
  readonly table: string;
  /** Column of `table` that names the main row. */
  readonly column: string;
  readonly where: ReadyText | null;
  /** At contention the free ones get the parent's owner, so that nobody else takes them before it comes again. */
  readonly reserve: boolean;
}

/** A row, or rows, that several main rows share, by id in a column of the main row. `lock_owner` = pipeline:id. */
export interface SharedLock {
  readonly kind: "parent" | "parents";
  readonly table: string;
  /** Column of the main row: an id, or for `parents` a list of ids. */
  readonly column: string;
}

/** One free row out of many. `lock_owner` = pipeline:id. */
export interface PickLock {
  readonly kind: "pick";
  readonly table: string;
  /** Column of `table` → column of the main row that must be equal. */
  readonly match: Readonly<Record<string, string>>;
  readonly where: ReadyText | null;
  /** Columns of `table`: the first free row in this order is taken; ties by id. */
  readonly orderBy: readonly string[];
}

/** The related locks of a state, by the name under which `process` sees their rows. */
export type RelatedLocks = Readonly<Record<string, RelatedLock>>;

export type Where<DB, T extends keyof DB> = (eb: ExpressionBuilder<DB, T>) => Expression<SqlBool>;

/** The columns of T that hold an id, or none. */
export type IdColumn<DB, T extends keyof DB> = {
  [C in keyof Selectable<DB[T]> & string]: Selectable<DB[T]>[C] extends string | null ? C : never;
}[keyof Selectable<DB[T]> & string];

/** The columns of T that hold a list of ids. */
export type IdsColumn<DB, T extends keyof DB> = {
  [C in keyof Selectable<DB[T]> & string]: Selectable<DB[T]>[C] extends readonly string[] | null ? C : never;
}[keyof Selectable<DB[T]> & string];

/** A lock that still knows its table and how many rows it gives; only types look at what is behind `__`. */
export type LockOf<T extends string, Many extends boolean, Nullable extends boolean> = RelatedLock & {
  readonly __of?: { readonly table: T; readonly many: Many; readonly nullable: Nullable };
};

// biome-ignore lint/suspicious/noExplicitAny: relaxes the constraint only; each lock keeps its own types
export type Locks = Readonly<Record<string, LockOf<any, any, any> | undefined>>;

export type NoLocks = Readonly<Record<never, never>>;

/** The rows that a lock gives to `process`; undefined where `decide` may leave it out. */
export type RelatedRows<DB, L> = L extends { readonly __of?: infer Of }
  ? NonNullable<Of> extends {
      readonly table: infer T extends keyof DB;
      readonly many: infer Many;
      readonly nullable: infer Nullable;
    }
    ? Many extends true
      ? readonly Selectable<DB[T]>[]
      : Selectable<DB[T]> | (Nullable extends true ? null : never)
    : never
  : undefined;

/** What may be written to one related row: a patch, or its deletion. */
export interface RelatedChange<DB, T extends keyof DB> {
  readonly id: string;
  readonly set?: Patch<DB, T>;
  /** Deletes the row, under its own lock. */
  readonly delete?: true;
}

/** What an answer may say of the rows of a lock: of many by id, of one its patch. */
export type RelatedChanges<DB, L> = L extends { readonly __of?: infer Of }
  ? NonNullable<Of> extends { readonly table: infer T extends keyof DB; readonly many: infer Many }
    ? Many extends true
      ? readonly RelatedChange<DB, T>[]
      : Omit<RelatedChange<DB, T>, "id">
    : never
  : never;

export interface ChildrenOptions {
  /** @default false */
  readonly reserve?: boolean;
}

export interface PickOptions<DB, T extends keyof DB> {
  /** Only rows for which this holds. */
  readonly where?: Where<DB, T>;
  /** The first free row in this order; ties by id. @default by id */
  readonly orderBy?: readonly (keyof Selectable<DB[T]> & string)[];
}

/** The kinds of related locks, for the states of one main table. */
export interface LockKinds<DB, Main extends PipelineTable<DB>> {
  /** The rows of `table` whose `column` names the main row: all of them, or those for which `where` holds. */
  children<T extends PipelineTable<DB>>(
    table: T,
    column: IdColumn<DB, T>,
    where?: Where<DB, T>,
    options?: ChildrenOptions,
  ): LockOf<T, true, false>;
  /** The one row that `column` of the main row names; null where it names none. */
  parent<T extends PipelineTable<DB>, C extends IdColumn<DB, Main>>(
    table: T,
    column: C,
  ): LockOf<T, false, null extends Selectable<DB[Main]>[C] ? true : false>;
  /** The rows that a list of ids in `column` of the main row names. */
  parents<T extends PipelineTable<DB>>(table: T, column: IdsColumn<DB, Main>): LockOf<T, true, false>;
  /** One free row whose columns equal those of the main row; none free is contention. */
  pick<T extends PipelineTable<DB>>(
    table: T,
    match: { readonly [C in keyof Selectable<DB[T]> & string]?: keyof Selectable<DB[Main]> & string },
    options?: PickOptions<DB, T>,
  ): LockOf<T, false, false>;
}

export function lockKinds<DB, Main extends PipelineTable<DB>>(main: string): LockKinds<DB, Main> {
  const condition = (table: string, where: unknown) =>
    where === undefined ? null : readyText(`${main} locks ${table}`, where as never);
  return {
    children: (table, column, where, { reserve = false } = {}) => ({
      kind: "children",
      table,
      column,
      where: condition(table, where),
      reserve,
    }),
    parent: (table, column) => ({ kind: "parent", table, column }),
    parents: (table, column) => ({ kind: "parents", table, column }),
    pick: (table, match, { where, orderBy = [] } = {}) => ({
      kind: "pick",
      table,
      match: match as Readonly<Record<string, string>>,
      where: condition(table, where),
      orderBy,
    }),
  };
}

/**
 * Checks the related locks of a state: none on the pipeline's own table, at most one on a table.
 * @throws LOCK_OWN_TABLE, LOCK_TABLE_TWICE
 */
export function checkLocks(name: string, table: string, locks: RelatedLocks): void {
  const seen = new Set<string>();
  for (const lock of Object.values(locks)) {
    if (lock.table === table) throw new MillraceError("LOCK_OWN_TABLE", { name, table });
    if (seen.has(lock.table)) throw new MillraceError("LOCK_TABLE_TWICE", { name, table: lock.table });
    seen.add(lock.table);
  }
}

/** What stands in `lock_owner` of a related row: the pipeline where the row is its alone, else pipeline:id. */
export const relatedOwner = (pipeline: string, kind: RelatedLock["kind"], id: string): string =>
  kind === "children" ? pipeline : `${pipeline}:${id}`;
