import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/*
 * `npm test`: format and lint, types, unused code, every test project; ends with `N passed, N failed`.
 * `npm test -- --project unit` runs the named projects only, without the checks before.
 */

interface Result {
  readonly passed: number;
  readonly failed: number;
}

const root = new URL("..", import.meta.url).pathname;
const bin = join(root, "node_modules", ".bin");
const env = { ...process.env, PATH: `${bin}:${process.env["PATH"] ?? ""}` };

function run(command: string, args: readonly string[]): Promise<number> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd: root, env, stdio: ["ignore", "inherit", "inherit"] });
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => child.kill(signal));
    child.once("error", () => resolve(1));
    child.once("exit", (code) => resolve(code ?? 1));
  });
}

async function check(name: string, command: string, args: readonly string[]): Promise<Result> {
  const started = performance.now();
  const code = await run(command, args);
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(`${code === 0 ? "passed" : "FAILED"}  ${name}  ${seconds} s`);
  return code === 0 ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 };
}

async function vitest(args: readonly string[]): Promise<Result> {
  const directory = await mkdtemp(join(tmpdir(), "millrace-tests-"));
  const report = join(directory, "report.json");
  try {
    const code = await run("vitest", [
      "run",
      "--config",
      "test/vitest.config.ts",
      "--reporter=default",
      "--reporter=json",
      `--outputFile.json=${report}`,
      ...args,
    ]);
    const text = await readFile(report, "utf8").catch(() => undefined);
    if (text === undefined) return { passed: 0, failed: 1 };
    const { numPassedTests: passed, numFailedTests } = JSON.parse(text) as {
      numPassedTests: number;
      numFailedTests: number;
    };
    // a file that does not load fails no test
    return { passed, failed: code !== 0 && numFailedTests === 0 ? 1 : numFailedTests };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

const args = process.argv.slice(2);
const results: Result[] = [];
if (args.length === 0) {
  results.push(await check("format and lint", "biome", ["ci", "."]));
  results.push(await check("types", "tsc", ["-p", "."]));
  results.push(await check("types of the infrastructure", "tsc", ["-p", "infra"]));
  results.push(await check("unused code", "knip", []));
}
results.push(await vitest(args));
const passed = results.reduce((sum, r) => sum + r.passed, 0);
const failed = results.reduce((sum, r) => sum + r.failed, 0);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
