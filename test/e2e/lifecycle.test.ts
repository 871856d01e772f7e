import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ProcessTable, processStart } from "../../infra/local/process-table.ts";
import { ROOT } from "../../infra/local/state.ts";
import { sharedAssembly, startLocalStack } from "../support/stack.ts";
import {
  cloudFault,
  cloudLog,
  createVolume,
  directoriesOf,
  expectRest,
  untilItem,
  untilStatus,
} from "../support/volumes.ts";

/** Everything that a stack in this folder has started and that still runs. */
const alive = (stateDir: string) => new ProcessTable(join(stateDir, "processes.jsonl")).alive();

/** Starts a runner that must refuse; answers its exit code and what it said. */
async function refused(args: readonly string[]): Promise<{ code: number | null; output: string }> {
  const all = ["--database-port", "0", "--assembly", await sharedAssembly(), "--no-proof", ...args];
  const child = spawn(process.execPath, [join(ROOT, "infra/local/run.ts"), ...all]);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  const code = await new Promise<number | null>((resolve) => child.once("exit", resolve));
  return { code, output };
}

test("killed with work under way, the next start ends the orphans and the work is done once; SIGINT ends everything", async () => {
  const first = await startLocalStack();
  const { stateDir } = first;
  await cloudFault(first, { match: "under-way", kind: "delay", seconds: 100 });
  const { id } = await createVolume(first, "under-way");
  await untilItem(first, id, (i) => i.state === "processing", "processing");

  const second = await refused(["--state-dir", stateDir, "--port", "0"]);
  expect(second.code).toBe(1);
  expect(second.output).toContain(
    `ALREADY_RUNNING: A stack with process ${first.pid} runs in ${stateDir} already. Stop it, or give another folder`,
  );
  expect((await first.api("GET", `/volumes/${id}`)).status).toBe(200);

  const orphans = alive(stateDir);
  expect(orphans.map(({ what }) => what)).toEqual(expect.arrayContaining(["postgres", "sandbox worker-volumes"]));
  await first.kill("SIGKILL");
  expect(alive(stateDir).map(({ what }) => what)).toContain("postgres");
  rmSync(join(stateDir, "local.json")); // of the killed one, not to be taken for the next one's

  const again = await startLocalStack({ stateDir });
  expect(orphans.filter(({ pid, start }) => processStart(pid) === start)).toEqual([]);
  await untilStatus(again, "under-way", "active", { timeoutMs: 120_000 });
  await expectRest(again, "under-way");
  expect((await cloudLog(again, "under-way")).map((line) => line.outcome)).toEqual(["created"]);
  expect(directoriesOf(again, "under-way")).toBe(1);

  const started = alive(stateDir);
  await again.kill("SIGINT");
  expect(started.filter(({ pid, start }) => processStart(pid) === start)).toEqual([]);
  for (const file of ["local.json", "runner.json"]) expect(existsSync(join(stateDir, file))).toBe(false);
  rmSync(stateDir, { recursive: true, force: true });
});

test("a port that is taken is said so, and nothing is left running", async () => {
  const blocker = createServer();
  await new Promise<void>((resolve) => blocker.listen(0, "127.0.0.1", resolve));
  const { port } = blocker.address() as AddressInfo;
  const stateDir = mkdtempSync(join(tmpdir(), "millrace-lifecycle-"));
  const { code, output } = await refused(["--state-dir", stateDir, "--port", String(port)]);
  expect(code).toBe(1);
  expect(output).toContain(`PORT_IN_USE: Port ${port} for the AWS services is taken`);
  expect(alive(stateDir)).toEqual([]);
  expect(existsSync(join(stateDir, "local.json"))).toBe(false);
  blocker.close();
  rmSync(stateDir, { recursive: true, force: true });
});
