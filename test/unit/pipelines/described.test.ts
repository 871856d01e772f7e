import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { pipelines } from "../../../functions/pipelines/index.ts";

const folder = new URL("../../integration/pipelines", import.meta.url).pathname;

test("every pipeline of the application has the tests of describePipeline", () => {
  const described = readdirSync(folder).flatMap((file) => /^describe-(.+)\.test\.ts$/.exec(file)?.[1] ?? []);
  expect(described.sort()).toEqual(pipelines.pipelines.map((p) => p.name).sort());
});
