import { execFile } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ROOT } from "../../infra/local/state.ts";
import { type LocalStack, startLocalStack } from "../support/stack.ts";
import { until } from "../support/until.ts";
import { createVolume, directoriesOf, expectRest, untilGone, untilStatus } from "../support/volumes.ts";

/** How long an idle stack is watched; MILLRACE_IDLE_SECONDS says otherwise. */
const IDLE_SECONDS = Number(process.env["MILLRACE_IDLE_SECONDS"] ?? 130);
const FETCH_EVERY_SECONDS = 60;
const SWEEP_EVERY_SECONDS = 120;

let stack: LocalStack;
beforeAll(async () => {
  stack = await startLocalStack();
});
afterAll(() => stack?.stop());

/** Calls of the application's role so far: by the comment that a statement begins with, else by its text. */
async function callsByName(): Promise<Map<string, number>> {
  const rows = await stack.sql(
    `select coalesce(substring(s.query from '/\\* millrace:([a-z-]+) [a-z-]+ \\*/'), s.query) as name, sum(s.calls)::int as calls
     from pg_stat_statements s join pg_roles r on r.oid = s.userid where r.rolname = 'millrace_app' group by 1`,
  );
  return new Map(rows.map(({ name, calls }) => [name, calls]));
}

test(`an idle stack asks the database for nothing but its schedules' statements (${IDLE_SECONDS} s)`, {
  timeout: IDLE_SECONDS * 1000 + 240_000,
}, async () => {
  await createVolume(stack, "at-rest");
  await untilStatus(stack, "at-rest", "active");
  await expectRest(stack, "at-rest");
  const busy = async () =>
    ((await stack.control("GET", "/functions")).body as { inFlight: number }[]).some(({ inFlight }) => inFlight > 0);
  await until(async () => !(await busy()), { what: "all functions to rest", timeoutMs: 120_000, everyMs: 100 });

  const before = await callsByName();
  const from = performance.now();
  const elapsed = () => (performance.now() - from) / 1000;
  await until(() => elapsed() >= IDLE_SECONDS, {
    what: "the end of the window",
    timeoutMs: IDLE_SECONDS * 1000 + 60_000,
    everyMs: 1000,
  });
  const after = await callsByName();
  const seconds = elapsed();
  const calls = Object.fromEntries(
    [...after].map(([name, n]) => [name, n - (before.get(name) ?? 0)] as const).filter(([, n]) => n > 0),
  );
  const { fetch = 0, heartbeat = 0, sweep = 0, scan = 0, ...others } = calls;
  const pipelines = (await json("pipelines")).items.length;
  expect(fetch).toBeGreaterThanOrEqual(pipelines * Math.floor(seconds / FETCH_EVERY_SECONDS));
  expect(fetch).toBeLessThanOrEqual(pipelines * (Math.floor(seconds / FETCH_EVERY_SECONDS) + 1));
  expect(heartbeat).toBeLessThanOrEqual(Math.floor(seconds / FETCH_EVERY_SECONDS) + 1);
  expect(sweep + scan).toBeLessThanOrEqual(Math.floor(seconds / SWEEP_EVERY_SECONDS) + 1);
  expect(others).toEqual({});
  console.log(`${seconds.toFixed(0)} s idle: ${JSON.stringify(calls)}`);
});

/** One command line in a process of its own, as somebody types it. */
function millrace(...args: string[]): Promise<{ exit: number; stdout: string; stderr: string }> {
  const env = { ...process.env, MILLRACE_STATE_DIR: stack.stateDir };
  return new Promise((resolve) => {
    execFile(process.execPath, [join(ROOT, "functions/cli/main.ts"), ...args], { env }, (error, stdout, stderr) => {
      resolve({ exit: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

async function json(...args: string[]) {
  const { exit, stdout, stderr } = await millrace(...args, "--json");
  expect([exit, stderr]).toEqual([0, ""]);
  return JSON.parse(stdout);
}

test("the command line creates, shows and deletes a volume, and steers the pipeline", async () => {
  const { id, status } = await json("volumes", "create", "by-hand", "--size", "3");
  expect(status).toBe("submitted");
  await untilStatus(stack, "by-hand", "active");
  expect(await json("volumes", "show", id)).toMatchObject({ id, name: "by-hand", sizeGb: 3, status: "active" });
  const listed = await json("volumes", "list", "--status", "active");
  expect(listed.items.map((each: { name: string }) => each.name)).toEqual(["by-hand", "at-rest"]);

  expect((await millrace("pause", "volumes", "--by", "a test")).stdout).toBe("volumes is paused by a test\n");
  expect((await json("volumes", "delete", id)).status).toBe("deleting");
  expect((await millrace("hint", "volumes")).stdout).toBe("hinted volumes\n");
  expect(directoriesOf(stack, "by-hand")).toBe(1);
  expect((await json("pipelines")).items).toEqual(
    expect.arrayContaining([expect.objectContaining({ name: "volumes", pausedBy: "a test", due: 1 })]),
  );
  expect((await millrace("resume", "volumes")).stdout).toBe("volumes is running\n");
  await untilGone(stack, id, 60_000);
  expect(directoriesOf(stack, "by-hand")).toBe(0);
});

test("the command line says by its exit code what is wrong", async () => {
  const ghost = await millrace("volumes", "show", crypto.randomUUID());
  expect([ghost.exit, ghost.stdout]).toEqual([3, ""]);
  expect((await millrace("volumes", "create")).exit).toBe(2);
  const nowhere = await millrace("--state-dir", join(stack.stateDir, "nowhere"), "pipelines");
  expect(nowhere).toMatchObject({ exit: 5, stderr: expect.stringContaining("NO_STACK") });
});
