import { ApiFailure } from "./failure.ts";
import { checkHint, type TypeHint } from "./hint-formats.ts";
import type { ScannedSql } from "./named-parameters.ts";
import { checkName } from "./named-parameters.ts";
import type { SqlParameter } from "./request.ts";

/** A value for one `$n`: the type it is declared with, and its text. */
export interface BoundValue {
  /** OID sent with Parse; 0 leaves the type to PostgreSQL. */
  readonly oid: number;
  readonly text: string | null;
}

const HINT_OID: Record<TypeHint, number> = {
  JSON: 3802, // jsonb
  UUID: 2950,
  TIMESTAMP: 1114, // without time zone
  DATE: 1082,
  TIME: 1083,
  DECIMAL: 1700,
};
const INT8_MAX = 2n ** 63n - 1n;

/**
 * The values behind the `$n` of a statement. A string without a hint is declared as text, never left unknown, so that
 * PostgreSQL converts nothing by itself. ValidationException for a name without a value and for a value without a use.
 */
export function bindParameters(sql: ScannedSql, parameters: readonly SqlParameter[]): BoundValue[] {
  const values = new Map<string, BoundValue>();
  for (const parameter of parameters) values.set(checkName(parameter.name), bindOne(parameter));
  const bound = sql.names.map((name) => values.get(name) ?? unknownParameter(name));
  const used = new Set(sql.names);
  for (const name of values.keys()) if (!used.has(name)) unknownParameter(name);
  return bound;
}

function bindOne({ value, typeHint }: SqlParameter): BoundValue {
  switch (value.kind) {
    case "isNull":
      return { oid: 0, text: null };
    case "stringValue":
      if (!typeHint) return { oid: 25, text: value.value };
      checkHint(typeHint, value.value);
      return { oid: HINT_OID[typeHint], text: value.value };
    case "longValue":
      if (value.value > INT8_MAX || value.value < -INT8_MAX - 1n) {
        throw new ApiFailure("SerializationException", `${value.value} is out of the range of a long`);
      }
      return { oid: 20, text: String(value.value) };
    case "doubleValue":
      return { oid: 701, text: String(value.value) };
    case "booleanValue":
      return { oid: 16, text: value.value ? "t" : "f" };
    case "blobValue":
      return { oid: 17, text: `\\x${Buffer.from(value.value, "base64").toString("hex")}` };
  }
}

function unknownParameter(name: string): never {
  throw new ApiFailure("ValidationException", `Cannot find parameter: ${name}`);
}
