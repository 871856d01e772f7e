import type { PipelineOptions } from "../../lib/index.ts";
import { createEngineOn, type TestEngine, testRegistry } from "./engine-on.ts";
import { createTestDatabase } from "./test-database.ts";

export * from "./engine-on.ts";

/** A migrated database with the test pipelines, reached through the Data API. */
export async function createEngine(options: PipelineOptions = {}): Promise<TestEngine> {
  return createEngineOn(await createTestDatabase(), testRegistry(options));
}
