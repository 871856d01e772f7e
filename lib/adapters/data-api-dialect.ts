import type {
  ExecuteStatementCommandInput,
  ExecuteStatementCommandOutput,
  Field,
  RDSData,
  SqlParameter,
} from "@aws-sdk/client-rds-data";
import {
  CompiledQuery,
  type DatabaseConnection,
  type DatabaseIntrospector,
  type Dialect,
  type DialectAdapter,
  type Driver,
  type Kysely,
  PostgresAdapter,
  PostgresQueryCompiler,
  type QueryCompiler,
  type QueryResult,
  type TransactionSettings,
} from "kysely";
import { DataApiDialect } from "kysely-data-api";
import { isUuid } from "../engine/item.ts";
import { MillraceError } from "../errors.ts";

/** The five calls of a Data API client that the dialect makes. */
export type DataApiCalls = Pick<
  RDSData,
  "executeStatement" | "beginTransaction" | "commitTransaction" | "rollbackTransaction"
>;

export interface DataApiTarget {
  readonly resourceArn: string;
  readonly secretArn: string;
  readonly database: string;
}

/**
 * Kysely over the Data API by `kysely-data-api`, with its defects mended here and nowhere else:
 * - parameters: bigint stays exact, Uint8Array and JSON objects travel, uuid-shaped strings fit uuid and text columns,
 *   an object that looks like a parameter is data, names start with a letter;
 * - answers: no word of outdated drivers; int8 is an exact string, `timestamp` is read as UTC, `columnMetadata: []` is no result set;
 * - transactions: isolation level obeyed, savepoints, an error is not replaced by that of its rollback, and a
 *   connection is used again after commit without the ended transaction's id;
 * - migrations: no session lock, which a stateless call cannot hold.
 */
export function mendedDialect(calls: DataApiCalls, target: DataApiTarget): Dialect {
  const inner = new DataApiDialect({ mode: "postgres", driver: { ...target, client: mendedCalls(calls) as RDSData } });
  return {
    createAdapter: (): DialectAdapter => new LocklessAdapter(),
    createDriver: (): Driver => new MendedDriver(() => inner.createDriver()),
    createQueryCompiler: (): QueryCompiler => new MendedCompiler(),
    createIntrospector: (db: Kysely<unknown>): DatabaseIntrospector => inner.createIntrospector(db),
  };
}

/** Whoever migrates takes a lock row (`lib/schema`): it needs no session and no transaction to stay open. */
class LocklessAdapter extends PostgresAdapter {
  override async acquireMigrationLock(): Promise<void> {}
  override async releaseMigrationLock(): Promise<void> {}
}

class MendedCompiler extends PostgresQueryCompiler {
  protected override appendValue(value: unknown): void {
    // The service types every string as text, and `uuid = text` is no operator; a literal takes the column's type.
    if (isUuid(value)) {
      this.appendImmediateValue(value);
      return;
    }
    const name = `p${this.numParameters}`;
    this.append(this.getCurrentParameterPlaceholder());
    this.addParameter({ name, ...serialize(value) } satisfies SqlParameter);
  }

  protected override getCurrentParameterPlaceholder(): string {
    return `:p${this.numParameters}`;
  }
}

function serialize(value: unknown): { value: Field; typeHint?: "JSON" | "TIMESTAMP" } {
  switch (typeof value) {
    case "string":
      return { value: { stringValue: value } };
    case "boolean":
      return { value: { booleanValue: value } };
    case "bigint":
      // typed number, but the serializer writes a bigint exactly
      return { value: { longValue: value as unknown as number } };
    case "number":
      return { value: Number.isSafeInteger(value) ? { longValue: value } : { doubleValue: value } };
    case "object":
      return serializeObject(value);
    default:
      throw new MillraceError("VALUE_UNSUPPORTED", { type: typeof value });
  }
}

function serializeObject(value: object | null): { value: Field; typeHint?: "JSON" | "TIMESTAMP" } {
  if (value === null) return { value: { isNull: true } };
  if (value instanceof Uint8Array) return { value: { blobValue: value } };
  if (value instanceof Date) {
    if (Number.isNaN(value.getTime())) throw new MillraceError("VALUE_UNSUPPORTED", { type: "invalid date" });
    return { typeHint: "TIMESTAMP", value: { stringValue: value.toISOString().replace("T", " ").slice(0, 23) } };
  }
  // the service takes no arrays; a JSON array would be wrong for an array column, so nobody guesses
  if (Array.isArray(value)) throw new MillraceError("VALUE_UNSUPPORTED", { type: "array" });
  return { typeHint: "JSON", value: { stringValue: JSON.stringify(value) } };
}

function mendedCalls(calls: DataApiCalls): DataApiCalls {
  return {
    ...calls,
    beginTransaction: calls.beginTransaction,
    commitTransaction: calls.commitTransaction,
    rollbackTransaction: calls.rollbackTransaction,
    executeStatement: (async (input: ExecuteStatementCommandInput) => {
      const resultSetOptions = { longReturnType: "STRING", decimalReturnType: "STRING" } as const;
      return mendedAnswer(await calls.executeStatement({ ...input, resultSetOptions }));
    }) as DataApiCalls["executeStatement"],
  };
}

/** Exact numbers and right times, before `kysely-data-api` reads the answer. */
function mendedAnswer(answer: ExecuteStatementCommandOutput): ExecuteStatementCommandOutput {
  const { columnMetadata, records, ...rest } = answer;
  if (columnMetadata === undefined || columnMetadata.length === 0) return rest;
  const types = columnMetadata.map((c) => (c.typeName ?? "").toLowerCase());
  return {
    ...rest,
    columnMetadata,
    records: (records ?? []).map((record) => record.map((field, i) => mendedField(field, types[i] ?? ""))),
  };
}

/** Types whose values always fit a JavaScript number. */
const SMALL_INTEGERS = new Set(["int2", "int4", "smallserial", "serial"]);

function mendedField(field: Field, type: string): Field {
  if (field.stringValue === undefined) return field;
  if (SMALL_INTEGERS.has(type)) return { longValue: Number(field.stringValue) };
  if (type === "timestamp") return { stringValue: `${field.stringValue.replace(" ", "T")}Z` };
  return field;
}

/** A connection of `kysely-data-api`, replaced by a fresh one when its transaction has ended. */
class MendedConnection implements DatabaseConnection {
  readonly #fresh: () => Promise<DatabaseConnection>;
  current: DatabaseConnection;

  constructor(current: DatabaseConnection, fresh: () => Promise<DatabaseConnection>) {
    this.current = current;
    this.#fresh = fresh;
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    const { rows, numAffectedRows } = await this.current.executeQuery<R>(query);
    return numAffectedRows === undefined ? { rows } : { rows, numAffectedRows };
  }

  streamQuery<R>(query: CompiledQuery, size: number): AsyncIterableIterator<QueryResult<R>> {
    return this.current.streamQuery(query, size);
  }

  async renew(): Promise<void> {
    this.current = await this.#fresh();
  }
}

class MendedDriver implements Driver {
  readonly #inner: Driver;

  constructor(create: () => Driver) {
    this.#inner = create();
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<MendedConnection> {
    return new MendedConnection(await this.#inner.acquireConnection(), () => this.#inner.acquireConnection());
  }

  async beginTransaction(connection: MendedConnection, settings: TransactionSettings): Promise<void> {
    await this.#inner.beginTransaction(connection.current, settings);
    const modes = [settings.isolationLevel && `isolation level ${settings.isolationLevel}`, settings.accessMode].filter(
      (mode) => mode !== undefined,
    );
    if (modes.length > 0) await connection.executeQuery(CompiledQuery.raw(`set transaction ${modes.join(", ")}`));
  }

  async commitTransaction(connection: MendedConnection): Promise<void> {
    await this.#inner.commitTransaction(connection.current);
    await connection.renew();
  }

  /** A rollback that fails leaves nothing behind: the service ends the transaction by itself. */
  async rollbackTransaction(connection: MendedConnection): Promise<void> {
    await this.#inner.rollbackTransaction(connection.current).catch(() => undefined);
    await connection.renew();
  }

  async savepoint(connection: MendedConnection, name: string): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw(`savepoint ${quoted(name)}`));
  }

  async rollbackToSavepoint(connection: MendedConnection, name: string): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw(`rollback to savepoint ${quoted(name)}`));
  }

  async releaseSavepoint(connection: MendedConnection, name: string): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw(`release savepoint ${quoted(name)}`));
  }

  async releaseConnection(): Promise<void> {}

  async destroy(): Promise<void> {}
}

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;
