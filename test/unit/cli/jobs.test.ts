import { describe, expect, test } from "vitest";
import type { FleetJson, JobJson, OutputJson } from "../../../functions/api/json.ts";
import { millrace, problem, stackOf } from "./stack-of-answers.ts";

const ID = "6a1f7c1e-8c0e-4a52-9d0f-0f0e6c9a1b2d";
const FLEET = "6a1f7c1e-8c0e-4a52-9d0f-0f0e6c9a1b2e";
const INSTANCE = "6a1f7c1e-8c0e-4a52-9d0f-0f0e6c9a1b2f";
const engine = {
  attempts: 0,
  lastError: null,
  nextTryAt: null,
  lockOwner: null,
  lockExpiresAt: null,
  createdAt: "2026-11-30T11:58:00Z",
  lastProcessedAt: "2026-11-30T11:59:59Z",
};
const job: JobJson = {
  ...engine,
  id: ID,
  fleetId: FLEET,
  fleetName: "web",
  command: ["sh", "-c", "echo it's"],
  volumeIds: [],
  status: "submitted",
  stopRequested: false,
  instanceId: null,
  exitCode: null,
  statusMessage: null,
  startedAt: null,
  finishedAt: null,
};
const done: JobJson = { ...job, status: "done", exitCode: 0, finishedAt: "2026-11-30T11:59:59Z" };
const fleet = { ...engine, id: FLEET, name: "web", nodes: 1 } as unknown as FleetJson;

const ok = (body: unknown, status = 200) => ({ status, body });
const list = (...items: object[]) => ok({ items, nextCursor: null });
const out = (text: string, next: number, ended: boolean, more: Partial<OutputJson> = {}) =>
  ok({ text, next, ended, ...more } satisfies OutputJson);
const submitting = {
  "GET /fleets?name=web": list(fleet),
  [`GET /fleets/${FLEET}`]: ok(fleet),
  "POST /jobs": ok(job, 201),
};
const bodyOf = (asked: readonly { request: string; body: unknown }[], request: string) =>
  asked.find((one) => one.request === request)?.body;

test("everything after -- is the command, unchanged, also what looks like an option of ours", async () => {
  const { dir, asked } = await stackOf({
    ...submitting,
    "GET /volumes?name=data": list({ id: INSTANCE, status: "active" }),
  });
  const command = ["sh", "-c", 'echo "$1" \\ ü', "--", "--json", "--fleet", "other", "", "-h", "--detach"];
  const flags = ["--fleet", "web", "--volume", "data", "--volume", ID, "--detach", "--state-dir", dir];
  const { exit, stdout, stderr } = await millrace(["jobs", "run", ...flags, "--", ...command]);
  expect([exit, stdout, stderr]).toEqual([0, `job ${ID} is submitted\n`, ""]);
  expect(bodyOf(asked, "POST /jobs")).toEqual({ fleetId: FLEET, command, volumeIds: [INSTANCE, ID] });
  expect(asked.some(({ request }) => request.includes("output"))).toBe(false);
});

test("a job is followed until it has ended: output to stdout as it is, its course to stderr", async () => {
  const placed = { ...job, status: "provisioning", instanceId: INSTANCE };
  const { dir, asked } = await stackOf({
    ...submitting,
    [`GET /jobs/${ID}`]: [ok(job), ok(placed), ok({ ...placed, status: "running" }), ok(done)],
    [`GET /jobs/${ID}/output?from=0`]: [out("", 0, false), out("", 0, false), out("a\nb", 3, false)],
    [`GET /jobs/${ID}/output?from=3`]: out("ä", 5, true),
  });
  const { exit, stdout, stderr } = await millrace(["jobs", "run", "--fleet", "web", "--state-dir", dir, "--", "x"]);
  expect([exit, stdout]).toEqual([0, "a\nbä"]);
  expect(stderr.split("\n")).toEqual([
    `job ${ID} is waiting for an instance`,
    `job ${ID} is starting on instance ${INSTANCE}`,
    `job ${ID} is running`,
    `job ${ID} is done`,
    "",
  ]);
  expect(asked.at(-1)?.request).toBe(`GET /jobs/${ID}/output?from=3`);
});

test("with --json the ended job is printed, and nothing of its output", async () => {
  const { dir } = await stackOf({
    ...submitting,
    [`GET /jobs/${ID}`]: [ok({ ...job, status: "running" }), ok(done)],
    [`GET /jobs/${ID}/output?from=0`]: out("text", 4, true, { skipped: 3 }),
  });
  const { exit, stdout } = await millrace(["jobs", "run", "--fleet", "web", "--json", "--state-dir", dir, "--", "x"]);
  expect([exit, JSON.parse(stdout)]).toEqual([0, done]);
});

test.each([
  [{ status: "failed", exitCode: 3 }, "failed with exit code 3"],
  [{ status: "failed", exitCode: null, statusMessage: "instance 1 is gone" }, "failed: instance 1 is gone"],
  [{ status: "terminated", exitCode: 143, statusMessage: "stopped" }, "was stopped: stopped"],
] as const)("a job that ends as %j makes the exit code 1", async (end, words) => {
  const { dir } = await stackOf({
    ...submitting,
    [`GET /jobs/${ID}`]: ok({ ...done, ...end }),
    [`GET /jobs/${ID}/output?from=0`]: out("last words\n", 11, true),
  });
  const { exit, stdout, stderr } = await millrace(["jobs", "run", "--fleet", FLEET, "--state-dir", dir, "--", "x"]);
  expect([exit, stdout]).toEqual([1, "last words\n"]);
  expect(stderr).toContain(`error: job ${ID} ${words} (JOB_FAILED)\n`);
});

test("Ctrl-C stops following, not the job, and says how to go on and how to stop it", async () => {
  const { dir, asked } = await stackOf({
    ...submitting,
    [`GET /jobs/${ID}`]: ok({ ...job, status: "running" }),
    [`GET /jobs/${ID}/output?from=0`]: out("a", 1, false),
    [`GET /jobs/${ID}/output?from=1`]: out("", 1, false),
  });
  const args = ["jobs", "run", "--fleet", "web", "--state-dir", dir, "--", "x"];
  const { exit, stdout, stderr } = await millrace(args, { interruptAt: 3 });
  expect([exit, stdout]).toEqual([1, "a"]);
  expect(stderr).toContain(`millrace jobs logs ${ID} --follow`);
  expect(stderr).toContain(`millrace jobs stop ${ID}`);
  expect(asked.filter(({ request }) => request.includes("output"))).toHaveLength(3);
  expect(asked.some(({ request }) => request.endsWith("/stop"))).toBe(false);
});

describe("an API that cannot answer now", () => {
  const resuming = problem(503, "OUTPUT_UNREACHABLE", "try again");

  test("is asked again, from the same byte", async () => {
    const { dir } = await stackOf({
      [`GET /jobs/${ID}`]: ok({ ...job, status: "running" }),
      [`GET /jobs/${ID}/output?from=0`]: [out("a", 1, false)],
      [`GET /jobs/${ID}/output?from=1`]: [resuming, resuming, out("b", 2, true)],
    });
    const { exit, stdout } = await millrace(["jobs", "logs", ID, "--follow", "--state-dir", dir]);
    expect([exit, stdout]).toEqual([0, "ab"]);
  });

  test("is given up in the end", async () => {
    const { dir, asked } = await stackOf({
      [`GET /jobs/${ID}`]: ok({ ...job, status: "running" }),
      [`GET /jobs/${ID}/output?from=0`]: resuming,
    });
    const { exit, stderr } = await millrace(["jobs", "logs", ID, "--follow", "--state-dir", dir]);
    expect([exit, stderr]).toEqual([1, "error: try again (OUTPUT_UNREACHABLE)\n"]);
    expect(asked.filter(({ request }) => request.includes("output"))).toHaveLength(21);
  });

  test("in another way ends it at once", async () => {
    const { dir, asked } = await stackOf({ [`GET /jobs/${ID}`]: problem(404, "JOB_UNKNOWN", "there is no job") });
    expect((await millrace(["jobs", "logs", ID, "--follow", "--state-dir", dir])).exit).toBe(3);
    expect(asked).toHaveLength(1);
  });
});

describe("names", () => {
  const run = (dir: string, ...args: string[]) =>
    millrace(["jobs", "run", ...args, "--detach", "--state-dir", dir, "--", "x"]);

  test("an ambiguous volume is a usage error that names the ids; no job is made", async () => {
    const twins = list({ id: ID, status: "active" }, { id: INSTANCE, status: "submitted" });
    const { dir, asked } = await stackOf({ ...submitting, "GET /volumes?name=data": twins });
    const { exit, stderr } = await run(dir, "--fleet", "web", "--volume", "data");
    expect([exit, stderr]).toEqual([2, expect.stringContaining(`${ID}, ${INSTANCE} (NAME_AMBIGUOUS)`)]);
    expect(bodyOf(asked, "POST /jobs")).toBeUndefined();
  });

  test("of two volumes one of which is being deleted, the other is meant", async () => {
    const both = list({ id: ID, status: "deleting" }, { id: INSTANCE, status: "active" });
    const { dir, asked } = await stackOf({ ...submitting, "GET /volumes?name=data": both });
    expect((await run(dir, "--fleet", "web", "--volume", "data")).exit).toBe(0);
    expect(bodyOf(asked, "POST /jobs")).toMatchObject({ volumeIds: [INSTANCE] });
  });

  test("unknown ones are not found", async () => {
    const { dir } = await stackOf({ "GET /fleets?name=a+%26b": list() });
    const { exit, stderr } = await run(dir, "--fleet", "a &b");
    expect([exit, stderr]).toEqual([3, expect.stringContaining("no fleet is called a &b")]);
  });

  test("a fleet without nodes is told of", async () => {
    const { dir } = await stackOf({
      ...submitting,
      [`GET /fleets/${FLEET}`]: ok({ ...fleet, nodes: 0 }),
      [`GET /jobs/${ID}`]: ok(done),
      [`GET /jobs/${ID}/output?from=0`]: out("", 0, true),
    });
    const { stderr } = await millrace(["jobs", "run", "--fleet", "web", "--state-dir", dir, "--", "x"]);
    expect(stderr).toContain("fleet web has no nodes: millrace fleets resize web --nodes 1\n");
  });
});

describe("logs", () => {
  test("reads all that there is now, and does not wait for the end", async () => {
    const { dir, asked } = await stackOf({
      [`GET /jobs/${ID}/output?from=0`]: out("a", 1, false),
      [`GET /jobs/${ID}/output?from=1`]: out("b", 2, false),
      [`GET /jobs/${ID}/output?from=2`]: out("", 2, false),
    });
    expect(await millrace(["jobs", "logs", ID, "--state-dir", dir])).toEqual({ exit: 0, stdout: "ab", stderr: "" });
    expect(asked).toHaveLength(3);
    const json = await millrace(["jobs", "logs", ID, "--json", "--state-dir", dir]);
    expect(JSON.parse(json.stdout)).toEqual({ text: "ab", next: 2, ended: false });
  });

  test.each([[["--follow"]], [[]]])("%j says on stderr what is no longer kept", async (flags) => {
    const { dir } = await stackOf({
      [`GET /jobs/${ID}`]: ok(done),
      [`GET /jobs/${ID}/output?from=0`]: out("end\n", 1004, true, { skipped: 1000 }),
    });
    expect(await millrace(["jobs", "logs", ID, ...flags, "--state-dir", dir])).toEqual({
      exit: 0,
      stdout: "end\n",
      stderr: "1000 bytes of the output before this are no longer kept\n",
    });
  });

  test("a gap that opens while it reads: what is left follows it, and --json counts from the beginning", async () => {
    const { dir } = await stackOf({
      [`GET /jobs/${ID}/output?from=0`]: out("a", 1, false),
      [`GET /jobs/${ID}/output?from=1`]: out("end", 104, true, { skipped: 100 }),
    });
    const { stdout, stderr } = await millrace(["jobs", "logs", ID, "--json", "--state-dir", dir]);
    expect([JSON.parse(stdout), stderr]).toEqual([{ text: "end", next: 104, ended: true, skipped: 101 }, ""]);
  });
});

test("list hands on its filters and prints commands as a shell would take them", async () => {
  const { dir } = await stackOf({
    "GET /fleets?name=web": list(fleet),
    [`GET /jobs?status=done&limit=2&fleetId=${FLEET}`]: ok({ items: [done], nextCursor: "c2" }),
  });
  const args = ["jobs", "list", "--fleet", "web", "--status", "done", "--limit", "2", "--state-dir", dir];
  const { exit, stdout } = await millrace(args);
  expect(exit).toBe(0);
  expect(stdout.split("\n")).toEqual([
    expect.stringMatching(/^ID +FLEET +STATUS +EXIT +CREATED +COMMAND$/),
    expect.stringMatching(/ web +done +0 .* sh -c 'echo it'\\''s'$/),
    "more: --cursor c2",
    "",
  ]);
});

test("show and stop tell what is asked of it", async () => {
  const stopping = { ...job, status: "running", stopRequested: true };
  const { dir, asked } = await stackOf({
    [`GET /jobs/${ID}`]: ok(stopping),
    [`POST /jobs/${ID}/stop`]: ok(stopping, 202),
  });
  expect((await millrace(["jobs", "show", ID, "--state-dir", dir])).stdout).toMatch(
    /status +running \(stop asked for\)\n/,
  );
  expect((await millrace(["jobs", "stop", ID, "--state-dir", dir])).stdout).toBe(
    `job ${ID} is running, and is to stop\n`,
  );
  await millrace(["jobs", "stop", "../fleets", "--state-dir", dir]);
  expect(asked.at(-1)?.request).toBe("POST /jobs/..%2Ffleets/stop");
});

test.each([
  [["jobs", "run", "--", "x"]],
  [["jobs", "run", "--fleet", "web"]],
  [["jobs", "show"]],
  [["jobs", "list", "--limit", "0"]],
])("%j is a usage error", async (args) => {
  expect(await millrace(args)).toMatchObject({ exit: 2, stdout: "" });
});
