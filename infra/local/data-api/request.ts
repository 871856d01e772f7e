import { parseRequest } from "./exact-json.ts";
import { ApiFailure } from "./failure.ts";
import { TYPE_HINTS, type TypeHint } from "./hint-formats.ts";

/** A parameter's value: the one member of the union that was set. */
type FieldIn =
  | { readonly kind: "isNull" }
  | { readonly kind: "stringValue" | "blobValue"; readonly value: string }
  | { readonly kind: "longValue"; readonly value: bigint }
  | { readonly kind: "doubleValue"; readonly value: number }
  | { readonly kind: "booleanValue"; readonly value: boolean };

export interface SqlParameter {
  readonly name: string;
  readonly value: FieldIn;
  readonly typeHint?: TypeHint | undefined;
}

/** A request of any operation, checked; what an operation does not have is absent. */
export interface ApiRequest {
  readonly resourceArn: string;
  readonly secretArn: string;
  readonly database: string | undefined;
  readonly transactionId: string | undefined;
  readonly sql: string;
  readonly parameters: readonly SqlParameter[];
  readonly parameterSets: readonly (readonly SqlParameter[])[];
  readonly includeResultMetadata: boolean;
  readonly continueAfterTimeout: boolean;
  readonly longsAsText: boolean;
  readonly decimalsAsNumbers: boolean;
  readonly formatAsJson: boolean;
}

interface Members {
  readonly [name: string]: unknown;
  readonly resultSetOptions?: unknown;
  readonly parameters?: unknown;
  readonly parameterSets?: unknown;
  readonly value?: unknown;
}

/** Operations by the path of their route. */
export const OPERATIONS = {
  "/Execute": "ExecuteStatement",
  "/BatchExecute": "BatchExecuteStatement",
  "/BeginTransaction": "BeginTransaction",
  "/CommitTransaction": "CommitTransaction",
  "/RollbackTransaction": "RollbackTransaction",
} as const;
export type Operation = (typeof OPERATIONS)[keyof typeof OPERATIONS];

/** Reads a request body. SerializationException for malformed JSON or types, ValidationException for what is missing. */
export function readRequest(operation: Operation, body: string): ApiRequest {
  const members = parse(body);
  const runsSql = operation === "ExecuteStatement" || operation === "BatchExecuteStatement";
  const ends = operation === "CommitTransaction" || operation === "RollbackTransaction";
  if (text(members, "schema", 0, 64))
    throw new ApiFailure("ValidationException", "The schema parameter isn't supported");
  const options = object(members.resultSetOptions ?? {}, "resultSetOptions");
  return {
    resourceArn: required(members, "resourceArn", 11, 570),
    secretArn: required(members, "secretArn", 11, 570),
    database: text(members, "database", 0, 64) || undefined,
    transactionId: ends
      ? required(members, "transactionId", 0, 192)
      : text(members, "transactionId", 0, 192) || undefined,
    sql: runsSql ? required(members, "sql", 0, 65_536) : "",
    parameters: list(members.parameters, "parameters").map(parameter),
    parameterSets: list(members.parameterSets, "parameterSets").map((set) => list(set, "parameterSets").map(parameter)),
    includeResultMetadata: flag(members, "includeResultMetadata"),
    continueAfterTimeout: flag(members, "continueAfterTimeout"),
    longsAsText: choice(options, "longReturnType", ["LONG", "STRING"]) === "STRING",
    decimalsAsNumbers: choice(options, "decimalReturnType", ["STRING", "DOUBLE_OR_LONG"]) === "DOUBLE_OR_LONG",
    formatAsJson: choice(members, "formatRecordsAs", ["NONE", "JSON"]) === "JSON",
  };
}

function parse(body: string): Members {
  try {
    return object(parseRequest(body), "the request");
  } catch (error) {
    if (error instanceof ApiFailure) throw error;
    throw new ApiFailure("SerializationException", (error as Error).message);
  }
}

function parameter(given: unknown): SqlParameter {
  const members = object(given, "a parameter");
  const typeHint = choice(members, "typeHint", TYPE_HINTS);
  return { name: required(members, "name", 0, Number.MAX_SAFE_INTEGER), value: field(members.value), typeHint };
}

function field(given: unknown): FieldIn {
  const set = Object.entries(object(given ?? {}, "value")).filter(([, value]) => value !== null && value !== undefined);
  const [kind, value] = set[0] ?? [];
  if (set.length !== 1) throw new ApiFailure("ValidationException", "A Field must have exactly one member");
  switch (kind) {
    case "isNull":
      if (value === true) return { kind };
      break;
    case "stringValue":
    case "blobValue":
      if (typeof value === "string") return { kind, value };
      break;
    case "longValue":
      if (typeof value === "bigint") return { kind, value };
      break;
    case "doubleValue":
      if (typeof value === "number") return { kind, value };
      if (value === "NaN" || value === "Infinity" || value === "-Infinity") return { kind, value: Number(value) };
      break;
    case "booleanValue":
      if (typeof value === "boolean") return { kind, value };
      break;
    case "arrayValue":
      throw new ApiFailure("ValidationException", "Array parameters are not supported");
  }
  return malformed(String(kind));
}

function object(given: unknown, what: string): Members {
  if (typeof given === "object" && given !== null && !Array.isArray(given)) return given as Members;
  return malformed(what);
}

function list(given: unknown, what: string): readonly unknown[] {
  if (given === undefined || given === null) return [];
  return Array.isArray(given) ? given : malformed(what);
}

function flag(members: Members, name: string): boolean {
  const given = members[name] ?? false;
  return typeof given === "boolean" ? given : malformed(name);
}

function choice<const T extends string>(members: Members, name: string, values: readonly T[]): T | undefined {
  const given = text(members, name, 0, Number.MAX_SAFE_INTEGER);
  if (given === undefined) return undefined;
  const found = values.find((value) => value === given);
  return found ?? invalid(name, `Member must satisfy enum value set: [${values.join(", ")}]`);
}

function required(members: Members, name: string, least: number, most: number): string {
  return text(members, name, least, most) ?? invalid(name, "Member must not be null");
}

function text(members: Members, name: string, least: number, most: number): string | undefined {
  const given = members[name] ?? undefined;
  if (given === undefined) return undefined;
  if (typeof given !== "string") return malformed(name);
  if (given.length > most) invalid(name, `Member must have length less than or equal to ${most}`);
  if (given.length < least) invalid(name, `Member must have length greater than or equal to ${least}`);
  return given;
}

function malformed(what: string): never {
  throw new ApiFailure("SerializationException", `${what} has a value of the wrong type`);
}

function invalid(name: string, constraint: string): never {
  const text = `1 validation error detected: Value at '${name}' failed to satisfy constraint: ${constraint}`;
  throw new ApiFailure("ValidationException", text);
}
