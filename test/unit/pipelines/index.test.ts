import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { pipelines } from "../../../functions/pipelines/index.ts";

const folder = new URL("../../../functions/pipelines/", import.meta.url);

test("every pipeline of the folder is registered", async () => {
  const files = readdirSync(folder).filter((file) => file !== "index.ts");
  const modules: object[] = await Promise.all(files.map((file) => import(new URL(file, folder).href)));
  const made = modules.flatMap((module) =>
    Object.values(module).filter((value) => typeof value?.states === "object" && typeof value?.name === "string"),
  );
  expect(made.map(({ name }) => name).sort()).toEqual(pipelines.pipelines.map(({ name }) => name).sort());
  expect(made.length).toBeGreaterThan(1);
});

test("the only one with a last attempt is volumes: nothing else may stay behind half done", () => {
  const last = pipelines.pipelines.filter(({ options }) => options.maxAttempts !== null);
  expect(last.map(({ name }) => name)).toEqual(["volumes"]);
});
