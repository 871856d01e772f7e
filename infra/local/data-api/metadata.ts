import type { TableColumn } from "./catalog.ts";
import type { ColumnType } from "./fields.ts";
import type { ResultColumn } from "./statement.ts";

/** An entry of columnMetadata. */
export type ColumnMetadata = Readonly<Record<string, string | number | boolean>>;

const UNBOUNDED = 2_147_483_647;
const PRECISION: Readonly<Record<string, number>> = {
  bool: 1,
  int2: 5,
  int4: 10,
  int8: 19,
  oid: 10,
  float4: 8,
  float8: 17,
  date: 13,
  time: 15,
  timestamp: 29,
  timestamptz: 35,
  name: 63,
};
const SCALE: Readonly<Record<string, number>> = { float4: 8, float8: 17, time: 6, timestamp: 6, timestamptz: 6 };
const SIGNED = /^(?:int[248]|float[48]|numeric)$/;
const CASELESS = /^(?:bool|int[248]|oid|float[48]|numeric|date|time|timestamp|timestamptz|uuid)$/;
const SERIAL: Readonly<Record<string, string>> = { int2: "smallserial", int4: "serial", int8: "bigserial" };

/** Describes a column in the words of JDBC, as the service does. `table` is undefined for an expression. */
export function columnMetadata(column: ResultColumn, type: ColumnType, table: TableColumn | undefined): ColumnMetadata {
  return {
    arrayBaseColumnType: type.elementType?.jdbc ?? 0,
    isAutoIncrement: table?.autoIncrement ?? false,
    isCaseSensitive: !CASELESS.test(type.name),
    isCurrency: false,
    isSigned: SIGNED.test(type.name),
    label: column.name,
    name: column.name,
    // 0 never null, 1 may be null, 2 unknown.
    nullable: table ? (table.notNull ? 0 : 1) : 2,
    ...size(column, type),
    schemaName: table?.schemaName ?? "",
    tableName: table?.tableName ?? "",
    type: type.jdbc,
    typeName: (table?.serial && SERIAL[type.name]) || type.name,
  };
}

function size(
  { dataTypeModifier: modifier }: ResultColumn,
  { name }: ColumnType,
): { precision: number; scale: number } {
  if (name === "numeric") {
    if (modifier < 4) return { precision: 0, scale: 0 };
    return { precision: (modifier - 4) >> 16, scale: (modifier - 4) & 0x7ff };
  }
  if (name === "varchar" || name === "bpchar") return { precision: modifier < 4 ? UNBOUNDED : modifier - 4, scale: 0 };
  return { precision: PRECISION[name] ?? UNBOUNDED, scale: SCALE[name] ?? 0 };
}
