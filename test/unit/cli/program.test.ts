import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { CLI_ERRORS } from "../../../functions/cli/errors.ts";
import { distance } from "../../../functions/cli/format.ts";
import { emptyFolder, millrace, stackOf } from "./stack-of-answers.ts";

test.each([
  [[]],
  [["nonsense"]],
  [["volumes"]],
  [["volumes", "nonsense"]],
  [["volumes", "create", "data"]],
  [["volumes", "create", "--size", "1"]],
  [["volumes", "create", "data", "--size", "1.5"]],
  [["volumes", "create", "data", "--size", "0"]],
  [["volumes", "create", "data", "more", "--size", "1"]],
  [["volumes", "list", "--limit", "many"]],
  [["volumes", "show"]],
  [["pipelines", "--nonsense"]],
  [["hint"]],
])("%j is a usage error: exit code 2, and words on stderr", async (args) => {
  const { exit, stdout, stderr } = await millrace(args);
  expect([exit, stdout]).toEqual([2, ""]);
  expect(stderr).toMatch(/error|Usage/);
});

test.each([[["--help"]], [["volumes", "--help"]], [["volumes", "show", "--help"]], [["help", "pause"]]])(
  "%j is help: exit code 0, on stdout",
  async (args) => {
    const { exit, stdout, stderr } = await millrace(args);
    expect([exit, stderr]).toEqual([0, ""]);
    expect(stdout).toContain("Usage: millrace");
  },
);

test("without a stack the exit code is 5, and the words say where it looked and what to do", async () => {
  const dir = emptyFolder();
  const nothing = await millrace(["volumes", "list"], { cwd: dir });
  expect(nothing.exit).toBe(5);
  expect(nothing.stderr).toContain(join(dir, ".millrace"));
  expect(nothing.stderr).toContain("npm start");

  for (const text of ["{", "[]", "{}"]) {
    writeFileSync(join(dir, "local.json"), text);
    const broken = await millrace(["volumes", "list", "--state-dir", dir]);
    expect([broken.exit, broken.stderr]).toEqual([5, expect.stringContaining("STACK_FILE")]);
  }

  writeFileSync(join(dir, "local.json"), JSON.stringify({ apiUrl: "http://127.0.0.1:1" }));
  const silent = await millrace(["volumes", "list", "--state-dir", dir]);
  expect([silent.exit, silent.stderr]).toEqual([5, expect.stringContaining("STACK_SILENT")]);
});

test("the folder comes from --state-dir, else MILLRACE_STATE_DIR, else .millrace in the working directory", async () => {
  const body = { items: [], nextCursor: null };
  const { dir } = await stackOf({ "GET /volumes": { status: 200, body } });
  const elsewhere = { MILLRACE_STATE_DIR: emptyFolder() };
  expect((await millrace(["volumes", "list", "--state-dir", dir], { env: elsewhere })).exit).toBe(0);
  expect((await millrace(["volumes", "list"], { env: { MILLRACE_STATE_DIR: dir } })).exit).toBe(0);

  const { dir: stack } = await stackOf({ "GET /volumes": { status: 200, body } });
  const cwd = join(stack, "work");
  mkdirSync(cwd);
  expect((await millrace(["volumes", "list", "--state-dir", ".."], { cwd })).exit).toBe(0);
  expect((await millrace(["volumes", "list"], { cwd })).exit).toBe(5);
});

test("the script ends with the code that run() answers", () => {
  const main = new URL("../../../functions/cli/main.ts", import.meta.url).pathname;
  const ended = spawnSync(process.execPath, [main, "volumes", "list"], { cwd: emptyFolder(), encoding: "utf8" });
  expect([ended.status, ended.stderr]).toEqual([5, expect.stringContaining("NO_STACK")]);
});

test("a reader that has gone is no error", () => {
  const main = new URL("../../../functions/cli/main.ts", import.meta.url).pathname;
  const script = `"${process.execPath}" "${main}" --help | :`;
  expect(spawnSync("sh", ["-c", script], { encoding: "utf8" }).stderr).toBe("");
});

test("every error of the catalogue has words of its own", () => {
  const texts = Object.values(CLI_ERRORS).map(({ text }) => text);
  expect(new Set(texts).size).toBe(texts.length);
});

test.each([
  [0, "now"],
  [-900, "now"],
  [1_000, "in 1 s"],
  [-61_000, "1 min ago"],
  [7_300_000, "in 2 h"],
  [-200_000_000, "2 d ago"],
])("a distance of %i ms reads %s", (milliseconds, text) => {
  expect(distance(milliseconds)).toBe(text);
});
