import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { ERRORS, MillraceError } from "../../lib/index.ts";

const root = new URL("../..", import.meta.url).pathname;
const codes = Object.keys(ERRORS) as (keyof typeof ERRORS)[];

test("every code is used somewhere beside its catalogue", () => {
  const text = execFileSync(
    "git",
    ["grep", "-hE", '"[A-Z_]{4,}"', "--", "lib", "functions", "infra", ":!lib/errors.ts"],
    {
      cwd: root,
      encoding: "utf8",
    },
  );
  expect(codes.filter((code) => !text.includes(`"${code}"`))).toEqual([]);
});

test("no two codes say the same", () => {
  expect(new Set(codes.map((code) => ERRORS[code].text)).size).toBe(codes.length);
});

test("every code stands in the documentation", () => {
  const text = execFileSync("cat", ["docs/errors.md"], { cwd: root, encoding: "utf8" });
  expect(codes.filter((code) => !text.includes(`\`${code}\``))).toEqual([]);
});

test("details fill the sentence, and the cause is kept", () => {
  const cause = new Error("inner");
  const error = new MillraceError("NO_SUCH_ROW", { table: "volumes", id: "7" }, { cause });
  expect(error).toMatchObject({ code: "NO_SUCH_ROW", message: "volumes has no row 7", status: 404, cause });
});
