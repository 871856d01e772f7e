import { inject } from "vitest";
import { createDatabaseOn, type TestDatabase } from "./database-on.ts";

export type { TestDatabase } from "./database-on.ts";

/** Makes an empty database on the server that all test files share; drop it in afterAll. */
export function createTestDatabase(): Promise<TestDatabase> {
  return createDatabaseOn({
    databaseUrl: inject("databaseUrl"),
    dataApiUrl: inject("dataApiUrl"),
    clusterArn: inject("clusterArn"),
    ownerSecretArn: inject("ownerSecretArn"),
    appSecretArn: inject("appSecretArn"),
  });
}
