import { rm } from "node:fs/promises";
import pg from "pg";
import { createDataApi, type DataApi } from "../../infra/local/data-api/index.ts";
import { listenDataApi } from "../../infra/local/data-api/listen.ts";
import { startPostgres } from "../../infra/local/postgres.ts";

/** How to reach a PostgreSQL and the Data API before it. */
export interface ServerAddress {
  /** Superuser, database postgres. */
  readonly databaseUrl: string;
  readonly dataApiUrl: string;
  readonly clusterArn: string;
  readonly ownerSecretArn: string;
  readonly appSecretArn: string;
}

export interface TestServer extends ServerAddress {
  readonly dataApi: DataApi;
  /** Stops both and removes the data. */
  close(): Promise<void>;
}

const CLUSTER_ARN = "arn:aws:rds:us-east-1:000000000000:cluster:millrace-test";
const secretArn = (name: string) => `arn:aws:secretsmanager:us-east-1:000000000000:secret:${name}`;
const OWNER_SECRET_ARN = secretArn("owner");
const APP_SECRET_ARN = secretArn("app");
const SECRETS = new Map([
  [OWNER_SECRET_ARN, { username: "millrace_owner", password: "owner" }],
  [APP_SECRET_ARN, { username: "millrace_app", password: "app" }],
]);

/** Starts a PostgreSQL and a Data API of one's own on free ports, with the roles millrace_owner and millrace_app. */
export async function startTestServer(
  dataDir: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<TestServer> {
  const postgres = await startPostgres({ dataDir, port: 0, settings });
  await makeRoles(postgres.url("postgres"));
  const { host, port } = postgres;
  const dataApi = createDataApi({ host, port, resourceArn: CLUSTER_ARN, secret: (arn) => SECRETS.get(arn) });
  const listener = await listenDataApi(dataApi, { port: 0 });
  return {
    databaseUrl: postgres.url("postgres"),
    dataApiUrl: listener.url,
    clusterArn: CLUSTER_ARN,
    ownerSecretArn: OWNER_SECRET_ARN,
    appSecretArn: APP_SECRET_ARN,
    dataApi,
    async close() {
      await listener.close();
      await dataApi.close();
      await postgres.stop();
      await rm(postgres.dataDir, { recursive: true, force: true });
    },
  };
}

async function makeRoles(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  for (const { username, password } of SECRETS.values()) {
    await client.query(`create role ${username} login password '${password}'`);
  }
  await client.end();
}
