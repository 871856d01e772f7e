import { spawn } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ProcessTable } from "../../infra/local/process-table.ts";
import { ROOT } from "../../infra/local/state.ts";
import type { JsonObject, Template } from "../../infra/local/template.ts";
import { policiesOf } from "../iam/grants.ts";
import { sharedAssembly } from "../support/stack.ts";

/** Runs `npm start -- --once` with an assembly, and checks that nothing is left running. */
async function once(assembly: string): Promise<{ readonly code: unknown; readonly output: string }> {
  const stateDir = mkdtempSync(join(tmpdir(), "millrace-start-"));
  chmodSync(stateDir, 0o755); // as root, PostgreSQL runs as another user and must get into it
  const args = ["--once", "--state-dir", stateDir, "--port", "0", "--database-port", "0", "--assembly", assembly];
  const child = spawn(process.execPath, [join(ROOT, "infra/local/run.ts"), ...args]);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  const code = await new Promise((resolve) => child.once("exit", resolve));
  expect(existsSync(join(stateDir, "local.json"))).toBe(false);
  expect(new ProcessTable(join(stateDir, "processes.jsonl")).alive()).toEqual([]);
  rmSync(stateDir, { recursive: true, force: true });
  return { code, output };
}

/** The app's assembly without one action of a role. */
async function withoutAction(role: string, action: string): Promise<Disposable & { readonly folder: string }> {
  const whole = await sharedAssembly();
  const folder = mkdtempSync(join(tmpdir(), "millrace-without-"));
  for (const name of readdirSync(whole)) {
    if (!name.endsWith(".template.json")) {
      symlinkSync(join(whole, name), join(folder, name));
      continue;
    }
    const template = JSON.parse(readFileSync(join(whole, name), "utf8")) as Template;
    for (const policy of policiesOf(template.Resources)) {
      if (!policy.role.startsWith(role)) continue;
      for (const statement of policy.document["Statement"] as { Action: string | string[] }[] & JsonObject[]) {
        statement.Action = [statement.Action].flat().filter((each) => each !== action);
      }
    }
    writeFileSync(join(folder, name), JSON.stringify(template));
  }
  return { folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) };
}

test("npm start -- --once makes a volume active, says how long each phase took, and leaves nothing running", async () => {
  const { code, output } = await once(await sharedAssembly());
  expect(output).toMatch(/created through the API/);
  for (const phase of ["locked", "queued", "processing", "finished"])
    expect(output).toMatch(new RegExp(`${phase} +\\d+ ms`));
  expect(output).toMatch(/volume is active, \d+ ms after its row was inserted/);
  expect(output).toMatch(/its instance was up after \d+ ms, and all of it gone \d+ ms after its deletion/);
  expect(output).not.toContain("ACCESS_DENIED");
  expect(code).toBe(0);
});

const CLUSTER = ["arn:aws:rds:us-east-1:000000000000:cluster:databasecluster[0-9a-f]+", "DatabaseCluster"] as const;
const HINTS = ["arn:aws:sqs:us-east-1:000000000000:hints", "PipelinesHints"] as const;
test.each([
  ["a trigger's right to the database", "MigrationsMigrateRole", "migrate", "rds-data:ExecuteStatement", CLUSTER],
  [
    "a worker's right to the database",
    "PipelinesvolumesWorkerRole",
    "worker-volumes",
    "rds-data:ExecuteStatement",
    CLUSTER,
  ],
  ["a worker's right to hint another pipeline", "PipelinesfleetsWorkerRole", "worker-fleets", "sqs:SendMessage", HINTS],
] as const)(
  "without %s it ends with what is missing, not with what came of it",
  async (...[, role, name, action, resource]) => {
    using broken = await withoutAction(role, action);
    const from = performance.now();
    const { code, output } = await once(broken.folder);
    expect(code).toBe(1);
    const [arn, logicalId] = resource;
    const refused = `${name} \\(role ${role}\\w+\\) was refused ${action} on ${arn} \\(${logicalId}\\w+ in the template\\)`;
    const missing = `The missing statement: {"Effect":"Allow","Action":"${action}","Resource":"${arn}"}`;
    // the last line: as it was told while it happened, and as the end
    expect(
      output
        .trimEnd()
        .split("\n")
        .filter((line) => line.startsWith("ACCESS_DENIED")),
    ).toEqual([expect.stringMatching(new RegExp(`^ACCESS_DENIED: ${refused}: no policy allows it\\. ${missing}`))]);
    expect(output).not.toMatch(/VOLUME_NOT_ACTIVE|FLEET_STUCK|TRIGGER_FAILED|API_FAILED/);
    console.log(`ended after ${((performance.now() - from) / 1000).toFixed(1)} s`);
  },
);
