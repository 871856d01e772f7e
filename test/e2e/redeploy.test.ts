import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { synthesize } from "../../infra/local/assembly.ts";
import { startLocalStack } from "../support/stack.ts";
import { until } from "../support/until.ts";
import { createVolume, expectRest, untilStatus } from "../support/volumes.ts";

const root = new URL("../..", import.meta.url).pathname;

/** A copy of the application whose pipeline has one more state: active volumes without a message get one. */
async function nextVersion(folder: string): Promise<string> {
  for (const part of ["functions", "infra", "lib", "cdk.json", "package.json", "package-lock.json"])
    cpSync(join(root, part), join(folder, part), { recursive: true });
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  const file = join(folder, "functions/pipelines/volumes.ts");
  const source = readFileSync(file, "utf8");
  const changed = source.replace(
    /export const volumes = pipeline\("volumes", \{ submitted, deleting \}/,
    `export const greeting = state({
      ready: (eb) => eb.and([eb("status", "=", "active"), eb("status_message", "is", null), eb("to_be_deleted", "=", false)]),
      process: ({ apply }) => apply({ set: { status_message: "hello" } }),
    });
    export const volumes = pipeline("volumes", { submitted, deleting, greeting }`,
  );
  expect(changed).not.toBe(source);
  writeFileSync(file, changed);
  const outdir = join(folder, "assembly");
  await synthesize({ outdir, app: join(folder, "infra/aws/app.ts") });
  return outdir;
}

test("rows that only a newly deployed state makes ready are processed within one schedule period", async () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-next-"));
  const before = await startLocalStack();
  try {
    const { id } = await createVolume(before, "old");
    await untilStatus(before, "old", "active");
    await expectRest(before, "old");
    // nothing is wanted of it, for ever: only the new definition can make it due
    await before.sql("update volumes set due_at = null where id = $1", [id]);
    const assembly = await nextVersion(folder);
    await before.kill("SIGTERM");
    await using after = await startLocalStack({ stateDir: before.stateDir, assembly });
    await until(async () => (await after.sql("select status_message as m from volumes where id = $1", [id]))[0].m, {
      what: "the new state to act on the old row",
      timeoutMs: 75_000,
      everyMs: 100,
    });
    const indexes = await after.sql("select 1 from pg_indexes where indexname like 'millrace_due_volumes_%'");
    expect(indexes.length).toBe(2);
    await expectRest(after, "old");
  } finally {
    await before.kill("SIGKILL");
    rmSync(before.stateDir, { recursive: true, force: true });
    rmSync(folder, { recursive: true, force: true });
  }
});
