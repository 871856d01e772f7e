import { expect, test } from "vitest";
import type { VolumeJson } from "../../../functions/api/json.ts";
import { millrace, problem, stackOf } from "./stack-of-answers.ts";

const ID = "6a1f7c1e-8c0e-4a52-9d0f-0f0e6c9a1b2d";
const volume: VolumeJson = {
  id: ID,
  name: "data",
  sizeGb: 10,
  status: "submitted",
  attempts: 2,
  lastError: "createVolume: the cloud failed",
  nextTryAt: "2026-11-30T12:00:04.500Z",
  lockOwner: "volumes",
  lockExpiresAt: "2026-11-30T12:00:30Z",
  createdAt: "2026-11-30T11:58:00Z",
  lastProcessedAt: "2026-11-30T11:59:59Z",
};

test("create sends name and size and tells the id", async () => {
  const { dir, asked } = await stackOf({ "POST /volumes": { status: 201, body: volume } });
  const { exit, stdout } = await millrace(["volumes", "create", "data", "--size", "10", "--state-dir", dir]);
  expect([exit, stdout]).toEqual([0, `volume ${ID} is submitted\n`]);
  expect(asked).toEqual([{ request: "POST /volumes", body: { name: "data", sizeGb: 10 } }]);
});

test("show tells status, attempts, last error, next try and lock, with times for people", async () => {
  const { dir } = await stackOf({ [`GET /volumes/${ID}`]: { status: 200, body: volume } });
  const { stdout } = await millrace(["volumes", "show", ID, "--state-dir", dir]);
  expect(stdout).toBe(`\
id              ${ID}
name            data
size            10 GB
status          submitted
attempts        2
last error      createVolume: the cloud failed
next try        2026-11-30 12:00:04 UTC (in 4 s)
lock owner      volumes
lock expires    2026-11-30 12:00:30 UTC (in 30 s)
created         2026-11-30 11:58:00 UTC (2 min ago)
last processed  2026-11-30 11:59:59 UTC (1 s ago)
`);
});

test("a row that is held and due is under way", async () => {
  const due = { ...volume, nextTryAt: "2026-11-30T11:59:58Z" };
  for (const [lockExpiresAt, words] of [
    ["2026-11-30T12:00:30Z", "under way"],
    ["2026-11-30T11:59:59Z", "2026-11-30 11:59:58 UTC (2 s ago)"],
    [null, "2026-11-30 11:59:58 UTC (2 s ago)"],
  ]) {
    const { dir } = await stackOf({ [`GET /volumes/${ID}`]: { status: 200, body: { ...due, lockExpiresAt } } });
    const { stdout } = await millrace(["volumes", "show", ID, "--state-dir", dir]);
    expect(stdout).toContain(`next try        ${words}\n`);
  }
});

test("--json prints what the API answered, wherever it stands", async () => {
  const { dir } = await stackOf({ [`GET /volumes/${ID}`]: { status: 200, body: volume } });
  for (const args of [
    ["--json", "volumes", "show", ID],
    ["volumes", "show", ID, "--json"],
  ]) {
    const { exit, stdout } = await millrace([...args, "--state-dir", dir]);
    expect(exit).toBe(0);
    expect(JSON.parse(stdout)).toEqual(volume);
  }
});

test("list hands on its options and tells how to go on", async () => {
  const idle = { ...volume, id: "b", name: "long-name", status: "active", nextTryAt: null, attempts: 0 };
  const { dir } = await stackOf({
    "GET /volumes": { status: 200, body: { items: [], nextCursor: null } },
    "GET /volumes?limit=2&cursor=c1&status=active": { status: 200, body: { items: [volume, idle], nextCursor: "c2" } },
  });
  const args = ["--limit", "2", "--cursor", "c1", "--status", "active"];
  const { stdout } = await millrace(["volumes", "list", ...args, "--state-dir", dir]);
  expect(stdout.split("\n")).toEqual([
    "ID                                    NAME       SIZE   STATUS     ATTEMPTS  NEXT TRY",
    `${ID}  data       10 GB  submitted  2         2026-11-30 12:00:04 UTC (in 4 s)`,
    "b                                     long-name  10 GB  active     0         -",
    "more: --cursor c2",
    "",
  ]);
  expect((await millrace(["volumes", "list", "--state-dir", dir])).stdout).toBe("no volumes\n");
});

test("delete asks for the deletion", async () => {
  const { dir, asked } = await stackOf({
    [`DELETE /volumes/${ID}`]: { status: 202, body: { ...volume, status: "deleting" } },
  });
  const { exit, stdout } = await millrace(["volumes", "delete", ID, "--state-dir", dir]);
  expect([exit, stdout]).toEqual([0, `volume ${ID} is deleting\n`]);
  expect(asked).toHaveLength(1);
});

test("an id cannot lead to another path", async () => {
  const { dir, asked } = await stackOf({});
  for (const command of ["show", "delete"]) {
    await millrace(["volumes", command, "../pipelines?x", "--state-dir", dir]);
  }
  expect(asked.map(({ request }) => request)).toEqual([
    "GET /volumes/..%2Fpipelines%3Fx",
    "DELETE /volumes/..%2Fpipelines%3Fx",
  ]);
});

test.each([
  [400, 2],
  [404, 3],
  [409, 1],
  [423, 4],
  [500, 1],
  [503, 1],
])("status %i of the API ends with exit code %i and its words", async (status, exit) => {
  const { dir } = await stackOf({ [`GET /volumes/${ID}`]: problem(status, "SOME_CODE", "this is why") });
  const text = await millrace(["volumes", "show", ID, "--state-dir", dir]);
  expect(text).toEqual({ exit, stdout: "", stderr: "error: this is why (SOME_CODE)\n" });

  const json = await millrace(["volumes", "show", ID, "--state-dir", dir, "--json"]);
  expect([json.exit, json.stdout, JSON.parse(json.stderr).code]).toEqual([exit, "", "SOME_CODE"]);
});

test("an answer that is not the API's is not taken for success", async () => {
  const { dir } = await stackOf({ [`GET /volumes/${ID}`]: { status: 200, body: "<html>" } });
  const { exit, stderr } = await millrace(["volumes", "show", ID, "--state-dir", dir]);
  expect([exit, stderr]).toEqual([1, expect.stringContaining("API_ANSWER")]);
});

test("an API that is throttled is asked again", async () => {
  const { dir, asked } = await stackOf({
    "GET /volumes": [
      { status: 429, body: '{"message":"Too Many Requests"}' },
      { status: 429, body: '{"message":"Too Many Requests"}' },
      { status: 200, body: { items: [], nextCursor: null } },
    ],
  });
  expect(await millrace(["volumes", "list", "--state-dir", dir])).toMatchObject({ exit: 0, stdout: "no volumes\n" });
  expect(asked).toHaveLength(3);
});
