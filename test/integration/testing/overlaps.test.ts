import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findOverlaps, registry } from "../../../lib/index.ts";
import { createEngine, type TestEngine, things } from "../../support/engine.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());

test("rows of every kind are ready for one state at most", async () => {
  for (const status of ["submitted", "active", "checked", "failed"])
    for (const to_be_deleted of [true, false]) await engine.thing({ status, to_be_deleted });
  expect(await findOverlaps(engine.api, engine.registry)).toEqual([]);
});

test("control: a row that two states claim is named with both", async () => {
  const id = await engine.thing({ status: "submitted", size: 7 });
  const large = things.state({ ready: () => sql<boolean>`size > 6`, process: ({ apply }) => apply({}) });
  const wide = registry([...engine.registry.pipelines, things.pipeline("large", { large })]);
  expect(await findOverlaps(engine.api, wide)).toEqual([
    { table: "things", id, states: ["things.provision", "large.large"] },
  ]);
});
