import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { inspect, styleText } from "node:util";
import { createVitest, type Vitest } from "vitest/node";
import type { Mutation } from "./mutation.ts";

/*
 * node test/mutations/run.ts [name …]    a name means also the files that begin with it and a dash
 *
 * Takes out one guard after the other, in a copy of the repository, and runs the tests that should notice. A mutation
 * that only breaks the SQL or the program proves nothing about a guard: it counts as an error, as does one whose text is
 * not found. One with a `reason` must survive: another guard covers it. Ends with 1 unless all is as it must be.
 *
 * One Vitest runs them all, so that the test database is started once.
 */

const root = new URL("../..", import.meta.url).pathname;
const NOT_COPIED = new Set(["node_modules", ".git", ".millrace", "cdk.out"]);
/** Failures that come from a broken text, not from a missing guard. */
const BROKEN = /syntax error|SQLSTATE: 42|SyntaxError|does not exist|is not defined/;

type Outcome =
  | { readonly kind: "caught"; readonly by: string }
  | { readonly kind: "survived" }
  | { readonly kind: "covered" }
  | { readonly kind: "error"; readonly why: string };

async function main(names: readonly string[]): Promise<number> {
  const mutations = await load(names);
  const copy = await mkdtemp(join(tmpdir(), "millrace-mutations-"));
  await copyRepository(copy);
  const vitest = await startVitest(copy);
  try {
    // only a test that passes on the whole source can catch anything
    const unchanged = await runTests(vitest, [...new Set(mutations.flatMap((m) => m.tests))]);
    if (unchanged.kind !== "survived") {
      console.error("the tests fail without any mutation:", unchanged);
      return 1;
    }
    const outcomes: Outcome[] = [];
    for (const mutation of mutations) {
      const outcome = judged(mutation, await tryOne(vitest, copy, mutation));
      outcomes.push(outcome);
      report(mutation, outcome);
    }
    const count = (kind: Outcome["kind"]) => outcomes.filter((o) => o.kind === kind).length;
    const errors = count("error");
    const parts = [`${count("caught")} caught`, `${count("covered")} covered by another guard`];
    console.log([...parts, `${count("survived")} survived`, ...(errors > 0 ? [`${errors} in error`] : [])].join(", "));
    return count("caught") + count("covered") === mutations.length ? 0 : 1;
  } finally {
    await vitest.close();
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

/** What nobody notices is right where another guard covers it, and only there. */
function judged({ reason }: Mutation, outcome: Outcome): Outcome {
  if (reason === undefined) return outcome;
  if (outcome.kind === "survived") return { kind: "covered" };
  if (outcome.kind === "caught") return { kind: "error", why: `caught by ${outcome.by}, though: ${reason}` };
  return outcome;
}

async function tryOne(vitest: Vitest, copy: string, { file, also = [], tests, ...first }: Mutation): Promise<Outcome> {
  const changes = [first, ...also].map((change) => ({ file, ...change }));
  const sources = new Map<string, string>();
  for (const { file: name } of changes) sources.set(name, await readFile(join(copy, name), "utf8"));
  const wrong = changes.find(({ file: name, remove }) => sources.get(name)!.split(remove).length !== 2);
  if (wrong !== undefined) return { kind: "error", why: `not once in ${wrong.file}: ${wrong.remove}` };
  const mutated = new Map(sources);
  for (const { file: name, remove, by = "" } of changes) mutated.set(name, mutated.get(name)!.split(remove).join(by));
  const write = async (texts: ReadonlyMap<string, string>) => {
    for (const [name, text] of texts) {
      await writeFile(join(copy, name), text);
      vitest.invalidateFile(join(copy, name));
    }
  };
  await write(mutated);
  try {
    return await runTests(vitest, tests);
  } finally {
    await write(sources);
  }
}

function startVitest(copy: string): Promise<Vitest> {
  const config = join(copy, "test/vitest.config.ts");
  return createVitest("test", { root: copy, config, watch: false, bail: 1, reporters: [{}] });
}

async function runTests(vitest: Vitest, tests: readonly string[]): Promise<Outcome> {
  const specifications = await vitest.globTestSpecifications([...tests]);
  const { testModules, unhandledErrors } = await vitest.runTestSpecifications(specifications);
  const cases = testModules.flatMap((module) => [...module.children.allTests()]);
  const failed = cases.find((c) => c.result().state === "failed");
  const errors = [...testModules.flatMap((module) => module.errors()), ...unhandledErrors].map((e) => inspect(e));
  // `bail` counts what has ever failed
  for (const { project, moduleId } of specifications) vitest.state.clearFiles(project, [moduleId]);
  if (failed === undefined) {
    if (errors.length > 0) return { kind: "error", why: errors.join("\n") };
    return cases.length > 0 ? { kind: "survived" } : { kind: "error", why: "no test ran" };
  }
  const message = (failed.result().errors ?? []).map((error) => error.message).join("\n");
  if (BROKEN.test(message)) return { kind: "error", why: message };
  return { kind: "caught", by: failed.fullName };
}

function report({ file, guard, remove }: Mutation, outcome: Outcome): void {
  const color = outcome.kind === "caught" || outcome.kind === "covered" ? "green" : "red";
  console.log(`${styleText(color, outcome.kind)} ${file}: ${guard}`);
  if (outcome.kind === "caught") console.log(`  by: ${outcome.by}`);
  if (outcome.kind === "survived") console.log(`  without: ${remove}`);
  if (outcome.kind === "error") console.log(`  ${outcome.why.split("\n").slice(0, 3).join("\n  ")}`);
}

process.exitCode = await main(process.argv.slice(2));
