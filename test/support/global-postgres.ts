import { readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import type { TestProject } from "vitest/node";
import { createDataApi } from "../../infra/local/data-api/index.ts";
import { listenDataApi } from "../../infra/local/data-api/listen.ts";
import { endOrphans } from "../../infra/local/postgres/orphans.ts";
import { startPostgres } from "../../infra/local/postgres.ts";

declare module "vitest" {
  export interface ProvidedContext {
    /** Superuser, database postgres. */
    databaseUrl: string;
    dataApiUrl: string;
    clusterArn: string;
    ownerSecretArn: string;
    appSecretArn: string;
  }
}

const CLUSTER_ARN = "arn:aws:rds:us-east-1:000000000000:cluster:millrace-test";
const secretArn = (name: string) => `arn:aws:secretsmanager:us-east-1:000000000000:secret:${name}`;
const OWNER_SECRET_ARN = secretArn("owner");
const APP_SECRET_ARN = secretArn("app");
const SECRETS = new Map([
  [OWNER_SECRET_ARN, { username: "millrace_owner", password: "owner" }],
  [APP_SECRET_ARN, { username: "millrace_app", password: "app" }],
]);
const DIRECTORY = "millrace-test-";

/** One PostgreSQL and one Data API for all files of a project; each file makes databases of its own in it. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  await removeLeftovers();
  const dataDir = join(tmpdir(), DIRECTORY + process.pid);
  const postgres = await startPostgres({ dataDir, port: 0 });
  await makeRoles(postgres.url("postgres"));
  const { host, port } = postgres;
  const api = createDataApi({ host, port, resourceArn: CLUSTER_ARN, secret: (arn) => SECRETS.get(arn) });
  const listener = await listenDataApi(api, { port: 0 });
  project.provide("databaseUrl", postgres.url("postgres"));
  project.provide("dataApiUrl", listener.url);
  project.provide("clusterArn", CLUSTER_ARN);
  project.provide("ownerSecretArn", OWNER_SECRET_ARN);
  project.provide("appSecretArn", APP_SECRET_ARN);
  return async () => {
    await listener.close();
    await api.close();
    await postgres.stop();
    await rm(postgres.dataDir, { recursive: true, force: true });
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

/** A run that was killed leaves its server and its directory behind. */
async function removeLeftovers(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(DIRECTORY) || isAlive(Number.parseInt(name.slice(DIRECTORY.length), 10))) continue;
    const dir = join(tmpdir(), name);
    await endOrphans(dir);
    await rm(dir, { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
