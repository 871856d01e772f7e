import { randomBytes } from "node:crypto";
import pg from "pg";
import type { ServerAddress } from "./test-server.ts";

/** A database of one's own on a test server. */
export interface TestDatabase {
  readonly name: string;
  /** As millrace_owner, who may make tables. */
  readonly ownerPool: pg.Pool;
  /** A new connection, by default as millrace_owner; millrace_app may read and write but make nothing. */
  connect(as?: "owner" | "app" | "superuser"): Promise<pg.Client>;
  /** How to reach it over the Data API. */
  readonly dataApiConfig: {
    readonly clusterArn: string;
    /** Of millrace_app. */
    readonly secretArn: string;
    readonly ownerSecretArn: string;
    readonly database: string;
    readonly endpoint: string;
  };
  /** Ends its connections and removes it. */
  drop(): Promise<void>;
}

/** Makes an empty database that belongs to millrace_owner; drop it in afterAll. */
export async function createDatabaseOn(server: ServerAddress): Promise<TestDatabase> {
  const name = `t_${randomBytes(6).toString("hex")}`;
  await onServer(server, (admin) => admin.query(`create database ${name} owner millrace_owner`));
  const ownerPool = new pg.Pool({ connectionString: urlFor(server, "owner", name), max: 20 });
  // What the owner makes, the application may use.
  await ownerPool.query(`
    alter default privileges grant usage on schemas to millrace_app;
    alter default privileges grant select, insert, update, delete on tables to millrace_app;
    alter default privileges grant usage on sequences to millrace_app`);
  const clients = new Set<pg.Client>();
  return {
    name,
    ownerPool,
    async connect(as = "owner") {
      const client = new pg.Client({ connectionString: urlFor(server, as, name) });
      await client.connect();
      clients.add(client);
      return client;
    },
    dataApiConfig: {
      clusterArn: server.clusterArn,
      secretArn: server.appSecretArn,
      ownerSecretArn: server.ownerSecretArn,
      database: name,
      endpoint: server.dataApiUrl,
    },
    async drop() {
      await Promise.all([...clients].map((client) => client.end().catch(() => undefined)));
      await ownerPool.end();
      await onServer(server, (admin) => admin.query(`drop database ${name} with (force)`));
    },
  };
}

function urlFor(server: ServerAddress, as: "owner" | "app" | "superuser", database: string): string {
  const url = new URL(server.databaseUrl);
  url.pathname = `/${database}`;
  if (as !== "superuser") [url.username, url.password] = [`millrace_${as}`, as];
  return url.href;
}

async function onServer(server: ServerAddress, work: (admin: pg.Client) => Promise<unknown>): Promise<void> {
  const admin = new pg.Client({ connectionString: server.databaseUrl });
  await admin.connect();
  try {
    await work(admin);
  } finally {
    await admin.end();
  }
}
