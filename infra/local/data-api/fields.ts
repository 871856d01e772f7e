import { parseArray } from "./array-text.ts";
import { rawNumber } from "./exact-json.ts";
import { ApiFailure } from "./failure.ts";
import type { PgType } from "./pg-types.ts";
import { serviceText } from "./value-text.ts";

/** A Field of an answer: exactly one member. */
export type FieldOut = Readonly<Record<string, unknown>>;

/** How numbers are to be returned. */
export interface ReturnTypes {
  /** longReturnType STRING: 64-bit integers as text. */
  readonly longsAsText: boolean;
  /** decimalReturnType DOUBLE_OR_LONG: numeric as a number. */
  readonly decimalsAsNumbers: boolean;
}

/** A column's type with, for arrays, the type of its elements. */
export interface ColumnType extends PgType {
  readonly elementType: PgType | undefined;
}

/** A value in PostgreSQL's text form as a Field. UnsupportedResultException where the service has none. */
export function toField(type: ColumnType, text: string | null, returns: ReturnTypes): FieldOut {
  if (text === null) return { isNull: true };
  if (type.travels === "bytea") return { blobValue: base64(text) };
  if (type.travels === "array") return { arrayValue: toArray(type.elementType as PgType, text) };
  const value = scalar(type, text, returns);
  if (typeof value === "boolean") return { booleanValue: value };
  if (typeof value === "string") return { stringValue: value };
  return typeof value === "number" ? { doubleValue: value } : { longValue: value };
}

/** The value as it stands in formatted JSON. */
export function toJson(type: ColumnType, text: string | null, returns: ReturnTypes): unknown {
  const field = toField(type, text, returns);
  if ("isNull" in field) return null;
  const [value] = Object.values(field);
  return type.travels === "array" ? Object.values(value as object)[0] : value;
}

function scalar(type: PgType, text: string, returns: ReturnTypes): boolean | string | number | object {
  switch (type.travels) {
    case "boolean":
      return text === "t";
    case "long":
      return returns.longsAsText ? text : rawNumber(text);
    case "float4":
      return finiteNumber(Math.fround(Number(text)));
    case "float8":
      return finiteNumber(Number(text));
    case "numeric":
      return returns.decimalsAsNumbers ? decimalNumber(text) : text;
    default:
      return serviceText(type.travels, text);
  }
}

function toArray(element: PgType, text: string): FieldOut {
  // Elements keep their kind: a long stays a long and a decimal text, whatever the return types say.
  const plain = { longsAsText: false, decimalsAsNumbers: false };
  const values = parseArray(text).map((item) => (item === null ? null : scalar(element, item, plain)));
  return { [ARRAY_MEMBER[element.travels] ?? "stringValues"]: values };
}

const ARRAY_MEMBER: Readonly<Record<string, string>> = {
  boolean: "booleanValues",
  long: "longValues",
  float4: "doubleValues",
  float8: "doubleValues",
};

function decimalNumber(text: string): number | object {
  if (/^-?\d{1,18}$/.test(text)) return rawNumber(text);
  return finiteNumber(Number(text));
}

function finiteNumber(value: number): number {
  if (Number.isFinite(value)) return value;
  throw new ApiFailure("UnsupportedResultException", "NaN and Infinity values are not supported");
}

function base64(hex: string): string {
  return Buffer.from(hex.slice(2), "hex").toString("base64");
}
