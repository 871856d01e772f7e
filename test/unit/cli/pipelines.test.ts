import { expect, test } from "vitest";
import type { PipelineJson } from "../../../functions/api/json.ts";
import { millrace, problem, stackOf } from "./stack-of-answers.ts";

const running: PipelineJson = {
  name: "volumes",
  table: "volumes",
  pausedAt: null,
  pausedBy: null,
  fetchedAt: "2026-11-30T11:59:00Z",
  inFlight: { locked: 1, queued: 12, processing: 3 },
  due: 7,
  failed: 4,
  dead: 2,
};
const jobs: PipelineJson = { ...running, name: "jobs-running", table: "jobs", fetchedAt: null };
const paused: PipelineJson = { ...running, pausedAt: "2026-11-30T11:00:00Z", pausedBy: "Ann" };
const list = { "GET /pipelines": { status: 200, body: { items: [running, jobs], nextCursor: null } } };

test("pipelines shows what is in flight, due and dead", async () => {
  const { dir } = await stackOf({
    "GET /pipelines": { status: 200, body: { items: [paused, jobs], nextCursor: null } },
  });
  const { stdout } = await millrace(["pipelines", "--state-dir", dir]);
  expect(stdout.split("\n")).toEqual([
    "NAME          TABLE    STATE          DUE  LOCKED  QUEUED  PROCESSING  FAILED  DEAD  LAST FETCH",
    "volumes       volumes  paused by Ann  7    1       12      3           4       2     2026-11-30 11:59:00 UTC (1 min ago)",
    "jobs-running  jobs     running        7    1       12      3           4       2     -",
    "",
  ]);
  const json = await millrace(["pipelines", "--state-dir", dir, "--json"]);
  expect(JSON.parse(json.stdout)).toEqual({ items: [paused, jobs], nextCursor: null });
});

test("pause says who, resume lets it go on", async () => {
  const { dir, asked } = await stackOf({
    "POST /pipelines/volumes/pause": { status: 200, body: paused },
    "POST /pipelines/volumes/resume": { status: 200, body: running },
  });
  const pause = await millrace(["pause", "volumes", "--by", "Ann", "--state-dir", dir]);
  expect(pause).toMatchObject({ exit: 0, stdout: "volumes is paused by Ann\n" });
  const resume = await millrace(["resume", "volumes", "--state-dir", dir]);
  expect(resume).toMatchObject({ exit: 0, stdout: "volumes is running\n" });
  await millrace(["pause", "volumes", "--state-dir", dir]);
  expect(asked).toEqual([
    { request: "POST /pipelines/volumes/pause", body: { by: "Ann" } },
    { request: "POST /pipelines/volumes/resume", body: {} },
    { request: "POST /pipelines/volumes/pause", body: { by: expect.stringMatching(/.+/) } },
  ]);
});

test("a pipeline that is not there ends with 3", async () => {
  const { dir } = await stackOf({
    "POST /pipelines/nope/pause": problem(404, "PIPELINE_UNKNOWN", "no pipeline is called nope"),
  });
  expect((await millrace(["pause", "nope", "--state-dir", dir])).exit).toBe(3);
});

test("hint finds out whether it was given a pipeline or a table", async () => {
  const { dir, asked } = await stackOf({ ...list, "POST /hints": { status: 202, body: {} } });
  for (const target of ["volumes", "jobs-running", "jobs"]) {
    const hint = await millrace(["hint", target, "--state-dir", dir]);
    expect(hint).toMatchObject({ exit: 0, stdout: `hinted ${target}\n` });
  }
  expect(asked.filter(({ request }) => request === "POST /hints").map(({ body }) => body)).toEqual([
    { table: "volumes" },
    { pipeline: "jobs-running" },
    { table: "jobs" },
  ]);

  const unknown = await millrace(["hint", "nope", "--state-dir", dir]);
  expect(unknown).toMatchObject({ exit: 3, stderr: expect.stringContaining("volumes, jobs-running, jobs") });
});
