import { readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { endOrphans } from "../../infra/local/postgres/orphans.ts";
import { startTestServer } from "./test-server.ts";

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

const DIRECTORY = "millrace-test-";

/** One PostgreSQL and one Data API for all files of a project; each file makes databases of its own in it. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  await removeLeftovers();
  const server = await startTestServer(join(tmpdir(), DIRECTORY + process.pid));
  project.provide("databaseUrl", server.databaseUrl);
  project.provide("dataApiUrl", server.dataApiUrl);
  project.provide("clusterArn", server.clusterArn);
  project.provide("ownerSecretArn", server.ownerSecretArn);
  project.provide("appSecretArn", server.appSecretArn);
  return () => server.close();
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
