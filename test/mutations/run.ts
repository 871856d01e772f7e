import { spawn } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { styleText } from "node:util";
import type { Mutation } from "./mutation.ts";

/*
 * node test/mutations/run.ts [name …]    a name means also the files that begin with it and a dash
 *
 * Takes out one guard after the other, in a copy of the repository, and runs the tests that should notice. A mutation
 * that only breaks the SQL or the program proves nothing about a guard: it counts as an error, as does one whose text is
 * not found. Ends with 1 unless every mutation is caught.
 */

const root = new URL("../..", import.meta.url).pathname;
const NOT_COPIED = new Set(["node_modules", ".git", ".millrace", "cdk.out"]);
/** Failures that come from a broken text, not from a missing guard. */
const BROKEN = /syntax error|SQLSTATE: 42|SyntaxError|does not exist|is not defined/;

type Outcome =
  | { readonly kind: "caught"; readonly by: string }
  | { readonly kind: "survived" }
  | { readonly kind: "error"; readonly why: string };

interface Report {
  readonly success: boolean;
  readonly testResults: readonly {
    readonly message: string;
    readonly assertionResults: readonly {
      readonly status: string;
      readonly fullName: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

async function main(names: readonly string[]): Promise<number> {
  const mutations = await load(names);
  const copy = await mkdtemp(join(tmpdir(), "millrace-mutations-"));
  try {
    await copyRepository(copy);
    // only a test that passes on the whole source can catch anything
    const unchanged = await runTests(copy, [...new Set(mutations.flatMap((m) => m.tests))]);
    if (unchanged.kind !== "survived") {
      console.error("the tests fail without any mutation:", unchanged);
      return 1;
    }
    const outcomes: Outcome[] = [];
    for (const mutation of mutations) {
      const outcome = await tryOne(copy, mutation);
      outcomes.push(outcome);
      report(mutation, outcome);
    }
    const count = (kind: Outcome["kind"]) => outcomes.filter((o) => o.kind === kind).length;
    const errors = count("error");
    console.log(`${count("caught")} caught, ${count("survived")} survived${errors > 0 ? `, ${errors} in error` : ""}`);
    return count("caught") === mutations.length ? 0 : 1;
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
}

async function load(names: readonly string[]): Promise<readonly Mutation[]> {
  const own = new Set(["run", "mutation"]);
  const known = (await readdir(join(root, "test/mutations"))).map((f) => basename(f, ".ts")).filter((n) => !own.has(n));
  const isMeant = (file: string, name: string) => file === name || file.startsWith(`${name}-`);
  const unknown = names.filter((n) => !known.some((file) => isMeant(file, n)));
  if (unknown.length > 0) throw new Error(`no mutations named ${unknown.join(", ")}; known are ${known.join(", ")}`);
  const modules = known
    .filter((file) => names.length === 0 || names.some((name) => isMeant(file, name)))
    .map(async (name) => {
      const module = (await import(`./${name}.ts`)) as { readonly mutations: readonly Mutation[] };
      return module.mutations;
    });
  return (await Promise.all(modules)).flat();
}

async function copyRepository(to: string): Promise<void> {
  await cp(root, to, { recursive: true, filter: (path) => !NOT_COPIED.has(basename(path)) });
  await symlink(join(root, "node_modules"), join(to, "node_modules"));
}

async function tryOne(copy: string, { file, remove, by = "", tests }: Mutation): Promise<Outcome> {
  const path = join(copy, file);
  const source = await readFile(path, "utf8");
  const parts = source.split(remove);
  if (parts.length !== 2) return { kind: "error", why: `the text occurs ${parts.length - 1} times in ${file}` };
  await writeFile(path, parts.join(by));
  try {
    return await runTests(copy, tests);
  } finally {
    await writeFile(path, source);
  }
}

async function runTests(copy: string, tests: readonly string[]): Promise<Outcome> {
  const output = join(copy, "report.json");
  await rm(output, { force: true });
  const vitest = join(root, "node_modules/vitest/vitest.mjs");
  const options = ["--config", "test/vitest.config.ts", "--bail", "1", "--reporter", "json", "--outputFile", output];
  const child = spawn(process.execPath, [vitest, "run", ...options, ...tests], { cwd: copy, stdio: "ignore" });
  await new Promise((resolve, reject) => child.once("error", reject).once("exit", resolve));
  const text = await readFile(output, "utf8").catch(() => undefined);
  if (text === undefined) return { kind: "error", why: "vitest made no report" };
  const { success, testResults } = JSON.parse(text) as Report;
  const cases = testResults.flatMap((file) => file.assertionResults);
  const failed = cases.find((c) => c.status === "failed");
  if (failed === undefined) {
    if (success && cases.length > 0) return { kind: "survived" };
    return { kind: "error", why: testResults.map((file) => file.message).join("\n") || "no test ran" };
  }
  const message = failed.failureMessages.join("\n");
  if (BROKEN.test(message)) return { kind: "error", why: message };
  return { kind: "caught", by: failed.fullName };
}

function report({ file, guard, remove }: Mutation, outcome: Outcome): void {
  const color = outcome.kind === "caught" ? "green" : "red";
  console.log(`${styleText(color, outcome.kind)} ${file}: ${guard}`);
  if (outcome.kind === "caught") console.log(`  by: ${outcome.by}`);
  if (outcome.kind === "survived") console.log(`  without: ${remove}`);
  if (outcome.kind === "error") console.log(`  ${outcome.why.split("\n").slice(0, 3).join("\n  ")}`);
}

process.exitCode = await main(process.argv.slice(2));
