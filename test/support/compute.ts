import { execFile } from "node:child_process";
import { join } from "node:path";
import { expect } from "vitest";
import { ROOT } from "../../infra/local/state.ts";
import type { LocalStack } from "./stack.ts";
import { until } from "./until.ts";

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of all kinds
export type Json = any;

export interface CommandResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `npx millrace …` against a stack. */
export function millrace(stack: LocalStack, ...args: readonly string[]): Promise<CommandResult> {
  const all = [join(ROOT, "functions/cli/main.ts"), "--state-dir", stack.stateDir, ...args];
  return new Promise((resolve) =>
    execFile(process.execPath, all, { cwd: ROOT, timeout: 120_000 }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), stdout, stderr }),
    ),
  );
}

/** The JSON that a command of the command line prints. */
export async function millraceJson(stack: LocalStack, ...args: readonly string[]): Promise<Json> {
  const { code, stdout, stderr } = await millrace(stack, "--json", ...args);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout);
}

/** Creates a fleet and waits until all of its instances are idle. */
export async function idleFleet(
  stack: LocalStack,
  name: string,
  nodes: number,
  slots = 1,
): Promise<{ readonly id: string; readonly instances: readonly string[] }> {
  const { status, body } = await stack.api("POST", "/fleets", { name, nodes, slots });
  expect(status, JSON.stringify(body)).toBe(201);
  await untilInstances(stack, body.id, { idle: nodes });
  const rows = await stack.sql("select id from instances where fleet_id = $1 order by number", [body.id]);
  return { id: body.id, instances: rows.map((r) => r.id) };
}

/** Resolves when a fleet has exactly so many instances of each status, and no others. */
export function untilInstances(
  stack: LocalStack,
  fleetId: string,
  wanted: Readonly<Record<string, number>>,
  timeoutMs = 90_000,
): Promise<unknown> {
  const text = JSON.stringify(wanted);
  return until(
    async () => {
      const rows = await stack.sql(
        "select status, count(*)::int as n from instances where fleet_id = $1 group by status",
        [fleetId],
      );
      const found = Object.fromEntries(rows.map((r) => [r.status, r.n]));
      return (
        Object.keys(found).length === Object.keys(wanted).length &&
        Object.entries(wanted).every(([status, n]) => found[status] === n)
      );
    },
    { what: `instances of fleet ${fleetId}: ${text}`, timeoutMs, everyMs: 100 },
  );
}

/** Submits a job; answers its JSON. */
export async function submitJob(
  stack: LocalStack,
  fleetId: string,
  command: readonly string[],
  volumeIds: readonly string[] = [],
): Promise<Json> {
  const { status, body } = await stack.api("POST", "/jobs", { fleetId, command, volumeIds });
  expect(status, JSON.stringify(body)).toBe(201);
  return body;
}

/** Waits until a job has one of these statuses; answers its JSON. */
export async function untilJob(
  stack: LocalStack,
  id: string,
  statuses: readonly string[],
  timeoutMs = 90_000,
): Promise<Json> {
  let job: { status: string } | undefined;
  await until(
    async () => {
      job = (await stack.api("GET", `/jobs/${id}`)).body;
      return job !== undefined && statuses.includes(job.status);
    },
    { what: `job ${id} to be ${statuses.join(" or ")}`, timeoutMs, everyMs: 100 },
  );
  return job;
}

const TABLES = ["fleets", "instances", "jobs", "attachments", "volumes"];

/** At rest: no lock in any table, nothing in flight, no related row on any item's list. */
export async function expectNothingHeld(stack: LocalStack, timeoutMs = 60_000): Promise<void> {
  const held = async () => {
    const locks = await stack.sql(
      TABLES.map(
        (t) =>
          `select '${t}' as what, id::text, lock_owner, lock_token::text from ${t} where lock_token is not null or lock_owner is not null or lock_expires_at is not null`,
      ).join(" union all "),
    );
    const items = await stack.sql(
      "select pipeline as what, item_id::text as id, state from millrace.items where finished_at is null or related is not null",
    );
    return [...locks, ...items];
  };
  let last: unknown[] = [];
  await until(
    async () => {
      last = await held();
      return last.length === 0;
    },
    { what: "nothing locked, nothing in flight", timeoutMs, everyMs: 50 },
  ).catch((cause: unknown) => {
    throw new Error(`${String(cause)}: ${JSON.stringify(last)}`);
  });
}
