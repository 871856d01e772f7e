import { afterAll, beforeAll } from "vitest";
import { describePipeline } from "../../../lib/testing/index.ts";
import { createEngine, type TestEngine, testRegistry } from "../../support/engine.ts";

const registry = testRegistry();
let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());

const common = { database: () => engine.api, registry, services: () => ({}), clear: () => engine.clear() };

describePipeline(registry.get("things"), {
  ...common,
  rows: {
    provision: () => engine.thing(),
    remove: () => engine.thing({ to_be_deleted: true }),
  },
});
describePipeline(registry.get("checks"), {
  ...common,
  rows: { check: () => engine.thing({ status: "active" }) },
});
