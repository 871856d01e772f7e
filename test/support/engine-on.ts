import { RDSDataClient } from "@aws-sdk/client-rds-data";
import type { Generated, Kysely } from "kysely";
import { sql } from "kysely";
import type pg from "pg";
import {
  addPipelineColumns,
  callLimiter,
  type DataApiDatabase,
  dataApi,
  fenceTable,
  type Intent,
  type MigrateOptions,
  migrate,
  NOW,
  type PipelineColumns,
  type PipelineOptions,
  pipelinesFor,
  type Registry,
  registry,
  systemClock,
} from "../../lib/index.ts";
import type { Statement } from "../../lib/sql/statement.ts";
import type { TestDatabase } from "./database-on.ts";

/** A table with a column of each kind that is easily read or written wrong. */
export interface Thing extends PipelineColumns {
  id: Generated<string>;
  name: string;
  status: Generated<"submitted" | "active" | "checked" | "failed">;
  note: string | null;
  to_be_deleted: Intent<boolean>;
  size: Generated<number>;
  big: string | null;
  spec: Generated<unknown>;
  seen_at: Date | null;
  tags: Generated<string[]>;
}

export interface Log {
  id: Generated<string>;
  at: Generated<Date>;
  thing_id: string | null;
  message: string;
  level: Generated<string>;
}

export interface Schema {
  things: Thing;
  logs: Log;
}

const { on } = pipelinesFor<Schema, unknown>();
export const things = on("things");

export const provision = things.state({
  ready: (eb) => eb.and([eb("status", "=", "submitted"), eb("to_be_deleted", "=", false)]),
  process: ({ apply }) => apply({ set: { status: "active", seen_at: NOW } }),
});
export const check = things.state({
  ready: (eb) => eb.and([eb("status", "=", "active"), eb("to_be_deleted", "=", false)]),
  process: ({ apply }) => apply({}),
});
export const remove = things.state({
  ready: (eb) => eb("to_be_deleted", "=", true),
  process: ({ apply }) => apply({ delete: true }),
});

/** Two pipelines over one table: `things` provisions and removes, `checks` looks after active ones. */
export const testRegistry = (options: PipelineOptions = {}): Registry<unknown> =>
  registry([
    things.pipeline("things", { provision, remove }, { workers: 20, maxAttempts: 5, ...options }),
    things.pipeline("checks", { check }, { workers: 4 }),
  ]);

export const migrations = {
  "0001-things": {
    async up(db: Kysely<unknown>) {
      await sql`create table things (id uuid primary key default gen_random_uuid(), name text not null default 't',
        status text not null default 'submitted', note text, to_be_deleted boolean not null default false, size int not null default 1,
        big bigint, spec jsonb not null default '{}', seen_at timestamptz, tags text[] not null default '{}')`.execute(
        db,
      );
      await addPipelineColumns(db, "things");
      await fenceTable(db, "things", { intent: ["to_be_deleted"] });
      await sql`create table logs (id bigint generated always as identity primary key, at timestamptz not null default now(),
        thing_id uuid, message text not null, level text not null default 'info')`.execute(db);
    },
  },
};

export interface TestEngine extends AsyncDisposable {
  readonly database: TestDatabase;
  readonly registry: Registry<unknown>;
  /** As the application's role, through the Data API. */
  readonly api: DataApiDatabase<Schema>;
  /** As the owner, through the Data API. */
  readonly owner: DataApiDatabase<Schema>;
  /** Runs a statement as the functions do. */
  run<Row>(statement: Statement<Row>): Promise<readonly Row[]>;
  /** Plain SQL as the owner. */
  query<Row extends pg.QueryResultRow>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  /** Plain SQL as the owner, with the fences of all tables off: what somebody may do where a table has none. */
  past(text: string, values?: readonly unknown[]): Promise<void>;
  /** Plain SQL as the superuser: what the server does. */
  admin<Row extends pg.QueryResultRow>(text: string): Promise<Row[]>;
  /** Inserts a row; answers its id. */
  thing(columns?: Readonly<Record<string, unknown>>): Promise<string>;
  clear(): Promise<void>;
}

/** Migrates an empty database, with the test pipelines or others over their tables; reached through the Data API. */
export async function createEngineOn(
  database: TestDatabase,
  pipelines: Registry<unknown> = testRegistry(),
  tables: MigrateOptions["migrations"] = migrations,
): Promise<TestEngine> {
  const owner = connect<Schema>(database, database.dataApiConfig.ownerSecretArn);
  await migrate({ database: owner, registry: pipelines, migrations: tables, clock: systemClock });
  await database.ownerPool.query(
    "grant usage on schema millrace to millrace_app; grant all on all tables in schema millrace to millrace_app",
  );
  await database.ownerPool.query("alter table things alter column name set default 't'");
  const api = connect<Schema>(database, database.dataApiConfig.secretArn);
  const superuser = await database.connect("superuser");
  const query = async <Row extends pg.QueryResultRow>(text: string, values: readonly unknown[] = []) =>
    (await database.ownerPool.query<Row>(text, [...values])).rows;
  return {
    database,
    registry: pipelines,
    api,
    owner,
    query,
    past: (text, values = []) => runPast(database, text, values),
    admin: async <Row extends pg.QueryResultRow>(text: string) => (await superuser.query<Row>(text)).rows,
    run: async (statement) => (await api.run(statement)).rows,
    async thing(columns = {}) {
      const names = Object.keys(columns);
      const list = names.map((n) => `"${n}"`).join(", ");
      const values = names.map((_, n) => `$${n + 1}`).join(", ");
      const text =
        names.length === 0 ? "insert into things default values" : `insert into things (${list}) values (${values})`;
      const [row] = await query<{ id: string }>(`${text} returning id`, Object.values(columns));
      return row!.id;
    },
    async clear() {
      await query(
        "truncate things, logs, millrace.items, millrace.upkeep, millrace.orphans; update millrace.wakeups set wake_at = null; update millrace.pipelines set paused_at = null, drain = false, fetched_at = null",
      );
    },
    [Symbol.asyncDispose]: () => database.drop(),
  };
}

async function runPast(database: TestDatabase, text: string, values: readonly unknown[]): Promise<void> {
  const client = await database.ownerPool.connect();
  try {
    const { rows } = await client.query<{ name: string }>(
      "select g.tgrelid::regclass::text as name from pg_trigger g where g.tgname = 'millrace_fence' order by 1",
    );
    const turn = (how: "disable" | "enable") =>
      client.query(
        rows
          .map(({ name }) => `alter table ${name} ${how} trigger millrace_fence, ${how} trigger millrace_fence_delete`)
          .join("; "),
      );
    await client.query("begin");
    await turn("disable");
    await client.query(text, [...values]);
    await turn("enable");
    await client.query("commit");
  } finally {
    await client.query("rollback");
    client.release();
  }
}

export function connect<DB>(database: TestDatabase, secretArn: string, timeLeft?: () => number): DataApiDatabase<DB> {
  const { endpoint, clusterArn, database: name } = database.dataApiConfig;
  const client = new RDSDataClient({
    endpoint,
    region: "us-east-1",
    credentials: { accessKeyId: "test", secretAccessKey: "test" },
    maxAttempts: 1,
  });
  return dataApi<DB>({
    client,
    limiter: callLimiter(10),
    resourceArn: clusterArn,
    secretArn,
    database: name,
    ...(timeLeft === undefined ? {} : { timeLeft }),
  });
}
