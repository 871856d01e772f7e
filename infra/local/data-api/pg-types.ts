/** How a value of a type travels: the member of the Field it becomes, and what is done to PostgreSQL's text. */
export type Travels =
  | "boolean"
  | "long"
  | "float4"
  | "float8"
  | "numeric"
  | "text"
  | "date"
  | "time"
  | "timestamp"
  | "timestamptz"
  | "jsonb"
  | "bytea"
  | "array"
  | "unsupported";

/** A PostgreSQL type as the service sees it. */
export interface PgType {
  readonly name: string;
  readonly travels: Travels;
  /** java.sql.Types code, which columnMetadata carries. */
  readonly jdbc: number;
  /** OID of the element of an array type, else 0. */
  readonly element: number;
}

const JDBC = {
  BIT: -7,
  BIGINT: -5,
  BINARY: -2,
  CHAR: 1,
  NUMERIC: 2,
  INTEGER: 4,
  SMALLINT: 5,
  REAL: 7,
  DOUBLE: 8,
  VARCHAR: 12,
  DATE: 91,
  TIME: 92,
  TIMESTAMP: 93,
  OTHER: 1111,
  ARRAY: 2003,
} as const;

type Row = readonly [oid: number, name: string, arrayOid: number, travels: Travels, jdbc: keyof typeof JDBC];

/** Supported types whose one-dimensional arrays are supported too. */
const WITH_ARRAYS: readonly Row[] = [
  [16, "bool", 1000, "boolean", "BIT"],
  [19, "name", 1003, "text", "VARCHAR"],
  [20, "int8", 1016, "long", "BIGINT"],
  [21, "int2", 1005, "long", "SMALLINT"],
  [23, "int4", 1007, "long", "INTEGER"],
  [25, "text", 1009, "text", "VARCHAR"],
  [26, "oid", 1028, "long", "BIGINT"],
  [114, "json", 199, "text", "OTHER"],
  [700, "float4", 1021, "float4", "REAL"],
  [701, "float8", 1022, "float8", "DOUBLE"],
  [1042, "bpchar", 1014, "text", "CHAR"],
  [1043, "varchar", 1015, "text", "VARCHAR"],
  [1082, "date", 1182, "date", "DATE"],
  [1083, "time", 1183, "time", "TIME"],
  [1114, "timestamp", 1115, "timestamp", "TIMESTAMP"],
  [1184, "timestamptz", 1185, "timestamptz", "TIMESTAMP"],
  [1560, "bit", 1561, "text", "BIT"],
  [1700, "numeric", 1231, "numeric", "NUMERIC"],
  [2950, "uuid", 2951, "text", "OTHER"],
  [3802, "jsonb", 3807, "jsonb", "OTHER"],
];

/** Supported types whose arrays are not. void is here without proof: nobody has reported either way. */
const SCALARS: readonly Row[] = [
  [17, "bytea", 1001, "bytea", "BINARY"],
  [650, "cidr", 651, "text", "OTHER"],
  [869, "inet", 1041, "text", "OTHER"],
  [2278, "void", 0, "text", "OTHER"],
  [3904, "int4range", 3905, "text", "OTHER"],
  [3906, "numrange", 3907, "text", "OTHER"],
];

const KNOWN = new Map<number, PgType>();
for (const [oid, name, arrayOid, travels, jdbc] of [...WITH_ARRAYS, ...SCALARS]) {
  KNOWN.set(oid, { name, travels, jdbc: JDBC[jdbc], element: 0 });
  const array = WITH_ARRAYS.some((row) => row[0] === oid) ? "array" : "unsupported";
  if (arrayOid) KNOWN.set(arrayOid, { name: `_${name}`, travels: array, jdbc: JDBC.ARRAY, element: oid });
}
// The one-byte type of the system catalogues is called "char" with the quotes.
KNOWN.set(18, { name: '"char"', travels: "unsupported", jdbc: JDBC.CHAR, element: 0 });

/** A type that needs no look into the database. */
export function knownType(oid: number): PgType | undefined {
  return KNOWN.get(oid);
}

/** A row of pg_type about a type that is not in our tables: an enum, an extension's or an unsupported one. */
export interface CatalogType {
  readonly name: string;
  readonly kind: string;
  readonly element: number;
}

/** What becomes of it: enums and vectors are text, everything else makes the whole result fail. */
export function catalogType({ name, kind, element }: CatalogType): PgType {
  if (kind === "e") return { name, travels: "text", jdbc: JDBC.VARCHAR, element: 0 };
  if (name === "vector") return { name, travels: "text", jdbc: JDBC.OTHER, element: 0 };
  return { name, travels: "unsupported", jdbc: element ? JDBC.ARRAY : JDBC.OTHER, element };
}
