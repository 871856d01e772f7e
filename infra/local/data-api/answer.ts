import type { Backend } from "./backend.ts";
import type { Catalog } from "./catalog.ts";
import { ApiFailure } from "./failure.ts";
import { type ColumnType, toField, toJson } from "./fields.ts";
import { columnMetadata } from "./metadata.ts";
import type { ApiRequest } from "./request.ts";
import type { ResultColumn, StatementResult } from "./statement.ts";

/** Most that a result may be, in bytes. */
export const RESULT_LIMIT = 1_048_576;
/** Most that formatted JSON may be, in bytes. */
export const JSON_LIMIT = 10 * 1_048_576;

/** The answer to ExecuteStatement. UnsupportedResultException for what the service cannot return. */
export async function executeAnswer(
  result: StatementResult,
  request: ApiRequest,
  backend: Backend,
  catalog: Catalog,
): Promise<object> {
  const { columns, rows, tag } = result;
  if (!columns) return { generatedFields: [], numberOfRecordsUpdated: changedRows(tag) };
  const asJson = request.formatAsJson && tag.startsWith("SELECT");
  if (result.bytes > (asJson ? JSON_LIMIT : RESULT_LIMIT)) throw tooLarge(asJson);
  const types = await catalog.types(backend, columns);
  const refused = types.find((type) => type.travels === "unsupported");
  if (refused) throw unsupported(refused);
  // RETURNING leaves the number unset: accounts of the service differ, so nobody should rely on it.
  if (asJson) return { formattedRecords: formatted(columns, types, result, request), numberOfRecordsUpdated: 0 };
  const records = rows.map((row) => row.map((text, index) => toField(types[index] as ColumnType, text, request)));
  if (!request.includeResultMetadata) return { numberOfRecordsUpdated: 0, records };
  const tables = await catalog.tableColumns(backend, columns);
  const metadata = columns.map((column, index) => columnMetadata(column, types[index] as ColumnType, tables[index]));
  return { columnMetadata: metadata, numberOfRecordsUpdated: 0, records };
}

function formatted(
  columns: readonly ResultColumn[],
  types: readonly ColumnType[],
  { rows }: StatementResult,
  request: ApiRequest,
): string {
  const names = columns.map(({ name }) => name);
  if (new Set(names).size < names.length) {
    throw new ApiFailure("BadRequestException", "Column names must be unique when records are formatted as JSON");
  }
  const object = (row: readonly (string | null)[]) =>
    Object.fromEntries(row.map((text, index) => [names[index], toJson(types[index] as ColumnType, text, request)]));
  const json = JSON.stringify(rows.map(object));
  if (Buffer.byteLength(json) > JSON_LIMIT) throw tooLarge(true);
  return json;
}

function tooLarge(asJson: boolean): ApiFailure {
  return asJson
    ? new ApiFailure("BadRequestException", "Database response exceeded size limit")
    : new ApiFailure("UnsupportedResultException", "The result exceeds the size limit 1 MB.");
}

function unsupported({ name }: ColumnType): ApiFailure {
  const shown = (name.startsWith("_") ? `${name.slice(1)}[]` : name).toUpperCase();
  return new ApiFailure("UnsupportedResultException", `The result contains the unsupported data type ${shown}.`);
}

/** Rows that a statement without a result says it changed; 0 for DDL and for what only looks. */
function changedRows(tag: string): number {
  const match = /^(?:INSERT \d+|UPDATE|DELETE|MERGE) (\d+)$/.exec(tag);
  return Number(match?.[1] ?? 0);
}
