import { ENGINE_COLUMNS } from "../define/columns.ts";
import type { Pipeline } from "../define/pipeline.ts";
import type { Registry } from "../define/registry.ts";
import { split, toInsertGroups } from "../engine/changes.ts";
import { isUuid } from "../engine/item.ts";
import { MillraceError } from "../errors.ts";
import type { InsertGroup } from "../sql/insert.ts";
import type { RowWrite } from "../sql/write.ts";

/** New rows, by table. */
export type Inserts = Readonly<Record<string, readonly object[] | undefined>>;

/** @throws TABLE_UNKNOWN */
export function pipelinesOf(registry: Registry, table: string): readonly Pipeline[] {
  const pipelines = registry.of(table);
  if (pipelines.length === 0)
    throw new MillraceError("TABLE_UNKNOWN", { table, registered: registry.tables.join(", ") });
  return pipelines;
}

/** @throws ID_MALFORMED */
export function checkId(id: string): void {
  if (!isUuid(id)) throw new MillraceError("ID_MALFORMED", { id });
}

/** A patch as it travels. @throws PATCH_COLUMN, VALUE_UNSUPPORTED */
export function toRowWrite(table: string, id: string, set: Readonly<Record<string, unknown>>, token: string): RowWrite {
  for (const column of Object.keys(set))
    if ((ENGINE_COLUMNS as readonly string[]).includes(column))
      throw new MillraceError("PATCH_COLUMN", { pipeline: "a writer", table, column });
  const { values, nows } = split(set);
  return { id, token, set: values, nows };
}

/** New rows that go with the write of a row. @throws VALUE_UNSUPPORTED */
export const toInserts = (id: string, token: string, insert: Inserts | undefined): readonly InsertGroup[] =>
  insert === undefined ? [] : toInsertGroups([{ id, token, changes: { insert } as never }]);

/** The row behind the engine's columns of an answer. */
export const plainRow = <Row>(answer: Readonly<Record<string, unknown>>): Row =>
  Object.fromEntries(Object.entries(answer).filter(([column]) => !column.startsWith("millrace_"))) as Row;
