import {
  BatchExecuteStatementCommand,
  BeginTransactionCommand,
  CommitTransactionCommand,
  ExecuteStatementCommand,
  type ExecuteStatementCommandInput,
  type Field,
  RDSDataClient,
  RollbackTransactionCommand,
  type SqlParameter,
} from "@aws-sdk/client-rds-data";
import { inject } from "vitest";
import { createDataApi, type DataApi, type DataApiOptions } from "../../infra/local/data-api/index.ts";
import { listenDataApi } from "../../infra/local/data-api/listen.ts";
import type { TestDatabase } from "./test-database.ts";

type Extra = Partial<ExecuteStatementCommandInput>;
/** Values by name, as Fields; `[field, hint]` adds a type hint. */
export type Parameters = Readonly<Record<string, Field | readonly [Field, NonNullable<SqlParameter["typeHint"]>]>>;

/** Short calls of the Data API, through the AWS SDK without its retries. */
export interface Calls {
  /** A client and a command that are not yet sent. */
  command(sql: string): { client: RDSDataClient; input: ExecuteStatementCommand };
  execute(sql: string, parameters?: Parameters, extra?: Extra): ReturnType<typeof send>;
  /** The only field of the only row. */
  field(sql: string, parameters?: Parameters, extra?: Extra): Promise<Field>;
  batch(sql: string, sets: readonly Parameters[], transactionId?: string): Promise<unknown>;
  begin(): Promise<string>;
  commit(transactionId: string): Promise<string | undefined>;
  rollback(transactionId: string): Promise<string | undefined>;
}

const send = (client: RDSDataClient, input: ExecuteStatementCommandInput) =>
  client.send(new ExecuteStatementCommand(input));

/** Calls as millrace_owner, or as `secretArn` says, on the test database. */
export function callsTo(db: TestDatabase, to: { endpoint?: string; secretArn?: string } = {}): Calls {
  const client = new RDSDataClient({
    endpoint: to.endpoint ?? db.dataApiConfig.endpoint,
    region: "us-east-1",
    credentials: { accessKeyId: "test", secretAccessKey: "test" },
    maxAttempts: 1,
  });
  const arns = {
    resourceArn: db.dataApiConfig.clusterArn,
    secretArn: to.secretArn ?? db.dataApiConfig.ownerSecretArn,
  };
  const base = { ...arns, database: db.name };
  const execute = (sql: string, parameters: Parameters = {}, extra: Extra = {}) =>
    send(client, { ...base, sql, parameters: toList(parameters), ...extra });
  return {
    command: (sql) => ({ client, input: new ExecuteStatementCommand({ ...base, sql }) }),
    execute,
    async field(sql, parameters, extra) {
      const { records } = await execute(sql, parameters, extra);
      const field = records?.[0]?.[0];
      if (!field) throw new Error(`no row: ${sql}`);
      return field;
    },
    batch: (sql, sets, transactionId) =>
      client.send(new BatchExecuteStatementCommand({ ...base, sql, parameterSets: sets.map(toList), transactionId })),
    begin: async () => (await client.send(new BeginTransactionCommand(base))).transactionId ?? "",
    commit: async (transactionId) =>
      (await client.send(new CommitTransactionCommand({ ...arns, transactionId }))).transactionStatus,
    rollback: async (transactionId) =>
      (await client.send(new RollbackTransactionCommand({ ...arns, transactionId }))).transactionStatus,
  };
}

function toList(parameters: Parameters): SqlParameter[] {
  return Object.entries(parameters).map(([name, given]) =>
    Array.isArray(given) ? { name, value: given[0], typeHint: given[1] } : { name, value: given as Field },
  );
}

/** A Data API of one's own before the shared server, with its own options; close it when done. */
export async function ownDataApi(
  options: Partial<DataApiOptions> = {},
): Promise<{ api: DataApi; endpoint: string; close(): Promise<void> }> {
  const { hostname, port } = new URL(inject("databaseUrl"));
  const api = createDataApi({
    host: hostname,
    port: Number(port),
    resourceArn: inject("clusterArn"),
    secret: (arn) => {
      const name = { [inject("ownerSecretArn")]: "owner", [inject("appSecretArn")]: "app" }[arn];
      return name === undefined ? undefined : { username: `millrace_${name}`, password: name };
    },
    ...options,
  });
  const listener = await listenDataApi(api, { port: 0 });
  const close = async () => {
    await listener.close();
    await api.close();
  };
  return { api, endpoint: listener.url, close };
}
