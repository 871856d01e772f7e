import { RDSDataClient } from "@aws-sdk/client-rds-data";
import type { Hono } from "hono";
import { afterAll, afterEach, beforeAll } from "vitest";
import { createApp } from "../../../functions/api/app.ts";
import { createApiPorts } from "../../../functions/api/ports.ts";
import { createLocalCloud } from "../../../functions/cloud/local.ts";
import { migrations } from "../../../functions/migrations/index.ts";
import { pipelines } from "../../../functions/pipelines/index.ts";
import type { Database } from "../../../functions/pipelines/schema.ts";
import type { DataApi } from "../../../infra/local/data-api/index.ts";
import {
  callLimiter,
  type DataApiDatabase,
  dataApi,
  type HintQueue,
  migrate,
  systemClock,
} from "../../../lib/index.ts";
import { ownDataApi } from "../../support/data-api-calls.ts";
import { createTestDatabase, type TestDatabase } from "../../support/test-database.ts";

export interface RunningApi {
  readonly app: Hono;
  /** The database as the functions see it. */
  readonly database: DataApiDatabase<Database>;
  /** Bodies of the hints that were sent. */
  readonly hints: string[];
  /** Errors that the API did not foresee. */
  readonly logged: unknown[];
  /** Faults of the Data API behind it. */
  readonly faults: DataApi["faults"];
  /** The time that its function is said to have left, in milliseconds; no end by default. */
  readonly limits: { timeLeftMs: number };
  /** Where the cloud is; nobody answers there unless a test says otherwise. */
  readonly clouds: { url: string };
  /** The database as the tables' owner sees it, for transactions that stay open. */
  readonly testDatabase: TestDatabase;
  /** What the Data API behind it has been asked, and what it has open. */
  readonly stats: DataApi["stats"];
  /** SQL as the superuser, who alone sees what sessions of others do. */
  admin(text: string, values?: unknown[]): Promise<Record<string, unknown>[]>;
  /** SQL as the tables' owner: what other services and the engine would do. */
  sql(text: string, values?: unknown[]): Promise<Record<string, unknown>[]>;
}

/** The real API over a migrated database of its own, for the tests of one file. */
export function useApi(): () => RunningApi {
  let database: TestDatabase;
  let dataApiServer: Awaited<ReturnType<typeof ownDataApi>>;
  let running: RunningApi;
  beforeAll(async () => {
    database = await createTestDatabase();
    dataApiServer = await ownDataApi();
    running = await startOn(database, dataApiServer);
  });
  afterEach(() => {
    dataApiServer.api.faults.clear();
    running.limits.timeLeftMs = Number.POSITIVE_INFINITY;
  });
  afterAll(async () => {
    await dataApiServer?.close();
    await database?.drop();
  });
  return () => running;
}

async function startOn(
  database: TestDatabase,
  { api, endpoint }: Awaited<ReturnType<typeof ownDataApi>>,
): Promise<RunningApi> {
  const limits = { timeLeftMs: Number.POSITIVE_INFINITY };
  const { clusterArn, secretArn, ownerSecretArn, database: name } = database.dataApiConfig;
  const client = new RDSDataClient({
    endpoint,
    region: "us-east-1",
    credentials: { accessKeyId: "test", secretAccessKey: "test" },
    maxAttempts: 1,
  });
  const connect = (secret: string) =>
    dataApi<Database>({
      client,
      limiter: callLimiter(4),
      resourceArn: clusterArn,
      secretArn: secret,
      database: name,
      timeLeft: () => limits.timeLeftMs,
    });
  await migrate({ database: connect(ownerSecretArn), registry: pipelines, migrations, clock: systemClock });
  await database.ownerPool.query("grant usage on schema millrace to millrace_app");

  const superuser = await database.connect("superuser");
  const clouds = { url: "http://127.0.0.1:1" };
  const hints: string[] = [];
  const logged: unknown[] = [];
  const queue: HintQueue = { send: async (sent) => void hints.push(...sent.map(({ body }) => body)) };
  const appDatabase = connect(secretArn);
  const app = createApp(
    createApiPorts({
      database: appDatabase,
      registry: pipelines,
      hintQueue: queue,
      cloud: () => createLocalCloud(clouds.url),
      logError: (_reference, error) => logged.push(error),
    }),
  );
  return {
    app,
    database: appDatabase,
    testDatabase: database,
    clouds,
    hints,
    logged,
    faults: api.faults,
    limits,
    stats: api.stats,
    admin: async (text, values = []) => (await superuser.query(text, values)).rows,
    sql: async (text, values = []) => (await database.ownerPool.query(text, values)).rows,
  };
}
