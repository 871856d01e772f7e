/* `npm run iam:report`: what the roles of a stack are allowed, and what of it a stack that does everything makes use of. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { synthesize } from "../../infra/local/assembly.ts";
import type { AccessReport, CallOfRole } from "../../infra/local/iam/describe-access.ts";
import { type LocalStack, startLocalStack } from "../support/stack.ts";
import { textTable } from "../support/text-table.ts";
import { EXCEPTIONS } from "./exceptions.ts";
import { exercise } from "./exercise.ts";
import { type GrantOfRole, grantsOf, onlyIn, settle } from "./grants.ts";

const CALLS = new URL("calls.json", import.meta.url).pathname;
const started = performance.now();
const tell = (text: string) =>
  console.log(`${((performance.now() - started) / 1000).toFixed(1).padStart(6)} s  ${text}`);

async function main({ write }: { readonly write: boolean }): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "millrace-iam-"));
  try {
    tell("synthesizing: the stage that runs here, and one whose cloud is EC2");
    const assembly = await synthesize({ outdir: join(folder, "dev") });
    const ec2 = await synthesize({ outdir: join(folder, "ec2"), stage: "staging" });
    const { report, unfinished } = await runStack(join(folder, "dev"));
    const ours = grantsOf(assembly.template.Resources);
    const more = onlyIn(grantsOf(ec2.template.Resources), ours);
    const code = tellReport(report, more, write && unfinished === undefined);
    if (unfinished === undefined) return code;
    console.log(`\nthe exercise was not finished: ${String(unfinished)}`);
    return 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Brings the stack up, lets it do everything, and takes it down. */
async function runStack(assembly: string): Promise<{ report: AccessReport; unfinished: unknown }> {
  tell("starting the stack");
  await using stack = await startLocalStack({ assembly });
  const unfinished = await exercise(stack, tell).catch((error: unknown) => error);
  tell("stopping");
  return { report: await reportOf(stack), unfinished };
}

async function reportOf(stack: LocalStack): Promise<AccessReport> {
  return (await stack.control("GET", "/access")).body as AccessReport;
}

function tellReport(report: AccessReport, ofEc2: readonly GrantOfRole[], write: boolean): number {
  const local = settle(
    report.unused,
    EXCEPTIONS.filter(({ cloud }) => cloud === undefined),
  );
  const ec2 = settle(
    ofEc2,
    EXCEPTIONS.filter(({ cloud }) => cloud === "ec2"),
  );
  const excepted = report.unused.length - local.left.length;
  console.log(`\n${report.grants} grants, ${report.calls.length} calls of roles that were allowed by them\n`);
  list("grants never used", [...local.left, ...ec2.left]);
  list("calls never granted", report.refused);
  console.log(`excepted: ${excepted} grants here, ${ofEc2.length - ec2.left.length} of a stage whose cloud is EC2`);
  for (const { role, actions, why, cloud } of EXCEPTIONS) {
    console.log(`  ${role}${cloud ? ` (${cloud})` : ""}: ${actions.join(", ")}\n    ${why}`);
  }
  const idle = [...local.idle, ...ec2.idle];
  for (const each of idle) console.log(`an exception matches nothing: ${each}`);
  const changed = compareCalls(report.calls, write);
  const wrong = local.left.length + ec2.left.length + report.refused.length + idle.length;
  return wrong > 0 || changed ? 1 : 0;
}

function list(what: string, entries: readonly CallOfRole[]): void {
  console.log(`${what}: ${entries.length === 0 ? "none" : entries.length}`);
  if (entries.length > 0) {
    console.log(
      textTable(
        ["role", "action", "resource"],
        entries.map(({ role, action, resource }) => [role, action, resource]),
      ),
    );
  }
}

/** The calls that were made, kept for the tests that take grants away. Answers whether the file says otherwise. */
function compareCalls(calls: readonly CallOfRole[], write: boolean): boolean {
  const text = `${JSON.stringify(
    calls.map(({ role, action, resource }) => `${role} ${action} ${resource}`),
    null,
    2,
  )}\n`;
  if (write) {
    writeFileSync(CALLS, text);
    return false;
  }
  if (readFileSync(CALLS, "utf8") === text) return false;
  console.log("test/iam/calls.json says otherwise: write it again with npm run iam:report -- --write");
  return true;
}

const program = new Command("npm run iam:report --")
  .description("Runs a stack that does everything, and lists grants never used and calls never granted.")
  .option("--write", "keep the calls that were made in test/iam/calls.json", false)
  .parse();
process.exitCode = await main(program.opts());
