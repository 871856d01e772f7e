import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { StateFolder } from "../../../infra/local/state.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-folder-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("a state folder is made with all its parents", async () => {
  await StateFolder.take(join(folder, "a/b"));
  expect(existsSync(join(folder, "a/b/logs"))).toBe(true);
});

test("one that is a file, below a file, or where no folder can be is a coded error", async () => {
  writeFileSync(join(folder, "file"), "");
  for (const dir of [join(folder, "file"), join(folder, "file/below"), "/dev/null/below"])
    await expect(StateFolder.take(dir)).rejects.toMatchObject({ code: "STATE_FOLDER" });
});
