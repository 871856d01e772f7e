import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ProcessTable } from "../../infra/local/process-table.ts";
import { ROOT } from "../../infra/local/state.ts";
import { sharedAssembly } from "../support/stack.ts";

test("npm start -- --once makes a volume active, says how long each phase took, and leaves nothing running", async () => {
  const stateDir = mkdtempSync(join(tmpdir(), "millrace-start-"));
  chmodSync(stateDir, 0o755); // as root, PostgreSQL runs as another user and must get into it
  const args = ["--once", "--state-dir", stateDir, "--port", "0", "--database-port", "0"];
  const child = spawn(process.execPath, [
    join(ROOT, "infra/local/run.ts"),
    ...args,
    "--assembly",
    await sharedAssembly(),
  ]);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  const code = await new Promise((resolve) => child.once("exit", resolve));
  expect(output).toMatch(/created through the API/);
  for (const phase of ["locked", "queued", "processing", "finished"])
    expect(output).toMatch(new RegExp(`${phase} +\\d+ ms`));
  expect(output).toMatch(/volume is active, \d+ ms after its row was inserted/);
  expect(code).toBe(0);
  expect(existsSync(join(stateDir, "local.json"))).toBe(false);
  expect(new ProcessTable(join(stateDir, "processes.jsonl")).alive()).toEqual([]);
  rmSync(stateDir, { recursive: true, force: true });
});
