import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { expect, test } from "vitest";
import type { Mutation } from "../mutations/mutation.ts";

const root = new URL("../..", import.meta.url).pathname;
const names = readdirSync(join(root, "test/mutations/guards")).map((file) => basename(file, ".ts"));

/** Running them takes hours; that each still finds its text takes no time. */
test.each(names)("each mutation of %s finds its text once, and the tests that should notice", async (name) => {
  const { mutations } = (await import(`../mutations/guards/${name}.ts`)) as { readonly mutations: readonly Mutation[] };
  expect(mutations).not.toEqual([]);
  const wrong = mutations.flatMap(({ file, tests, also = [], ...first }) => {
    const changes = [first, ...also].map((change) => ({ file, ...change }));
    const lost = changes.filter((c) => readFileSync(join(root, c.file), "utf8").split(c.remove).length !== 2);
    return [
      ...lost.map((c) => `${c.file}, not once: ${c.remove}`),
      ...tests.filter((test) => !existsSync(join(root, test))).map((test) => `no file ${test}`),
    ];
  });
  expect(wrong).toEqual([]);
});
