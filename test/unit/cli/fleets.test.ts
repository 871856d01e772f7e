import { expect, test } from "vitest";
import type { FleetJson, InstanceJson } from "../../../functions/api/json.ts";
import { millrace, problem, stackOf } from "./stack-of-answers.ts";

const ID = "6a1f7c1e-8c0e-4a52-9d0f-0f0e6c9a1b2d";
const engine = {
  attempts: 0,
  lastError: null,
  nextTryAt: null,
  lockOwner: null,
  lockExpiresAt: null,
  createdAt: "2026-11-30T11:58:00Z",
  lastProcessedAt: "2026-11-30T11:59:59Z",
};
const fleet: FleetJson = {
  ...engine,
  id: ID,
  name: "web",
  nodes: 3,
  slots: 2,
  status: "active",
  statusMessage: null,
  instances: { idle: 2, pending: 1 },
};
const instance: InstanceJson = {
  ...engine,
  id: "i-row",
  fleetId: ID,
  number: 1,
  status: "busy",
  busy: 1,
  slots: 2,
  providerId: null,
  statusMessage: null,
};
const ok = (body: unknown, status = 200) => ({ status, body });
const list = (...items: object[]) => ok({ items, nextCursor: null });
const named = { "GET /fleets?name=web": list(fleet) };

test("create sends name, nodes and slots", async () => {
  const { dir, asked } = await stackOf({ "POST /fleets": ok(fleet, 201) });
  const { exit, stdout } = await millrace(["fleets", "create", "web", "--nodes", "3", "--state-dir", dir]);
  expect([exit, stdout]).toEqual([0, `fleet web (${ID}) is active\n`]);
  await millrace(["fleets", "create", "web", "--nodes", "0", "--slots", "2", "--state-dir", dir]);
  expect(asked.map(({ body }) => body)).toEqual([
    { name: "web", nodes: 3, slots: 1 },
    { name: "web", nodes: 0, slots: 2 },
  ]);
});

test.each(["web", ID])("show, resize and delete take %s", async (name) => {
  const { dir, asked } = await stackOf({
    ...named,
    [`GET /fleets/${ID}`]: ok(fleet),
    [`PATCH /fleets/${ID}`]: ok({ ...fleet, nodes: 5 }),
    [`DELETE /fleets/${ID}`]: ok({ ...fleet, status: "deleting" }, 202),
  });
  const run = async (...args: string[]) => (await millrace(["fleets", ...args, "--state-dir", dir])).stdout;
  expect(await run("show", name)).toMatch(/nodes +3\n[\s\S]*instances +2 idle, 1 pending\n/);
  expect(await run("resize", name, "--nodes", "5")).toBe("fleet web is to have 5 nodes\n");
  expect(await run("delete", name)).toBe("fleet web is deleting\n");
  expect(JSON.parse(await run("show", name, "--json"))).toEqual(fleet);
  expect(asked.find(({ request }) => request.startsWith("PATCH"))?.body).toEqual({ nodes: 5 });
  expect(asked.filter(({ request }) => request.includes("?name="))).toHaveLength(name === ID ? 0 : 4);
});

test("list and instances print tables and how to go on", async () => {
  const { dir } = await stackOf({
    ...named,
    "GET /fleets?limit=1": ok({ items: [fleet], nextCursor: "c2" }),
    "GET /fleets": list(),
    [`GET /fleets/${ID}/instances?cursor=c1`]: list(instance),
  });
  const run = async (...args: string[]) =>
    (await millrace(["fleets", ...args, "--state-dir", dir])).stdout.replaceAll(/ +/g, " ").split("\n");
  expect(await run("list", "--limit", "1")).toEqual([
    "ID NAME NODES SLOTS STATUS INSTANCES NEXT TRY",
    `${ID} web 3 2 active 2 idle, 1 pending -`,
    "more: --cursor c2",
    "",
  ]);
  expect(await run("list")).toEqual(["no fleets", ""]);
  expect(await run("instances", "web", "--cursor", "c1")).toEqual([
    "ID NUMBER STATUS BUSY MESSAGE NEXT TRY",
    "i-row 1 busy 1/2 - -",
    "",
  ]);
});

test.each([
  [423, "ROW_LOCKED", 4],
  [409, "FLEET_DELETING", 1],
  [404, "FLEET_UNKNOWN", 3],
])("a resize that is answered %i %s ends with exit code %i", async (status, code, exit) => {
  const { dir } = await stackOf({ [`PATCH /fleets/${ID}`]: problem(status, code, "this is why") });
  const args = ["fleets", "resize", ID, "--nodes", "1", "--state-dir", dir];
  expect(await millrace(args)).toEqual({ exit, stdout: "", stderr: `error: this is why (${code})\n` });
  const json = await millrace([...args, "--json"]);
  expect([json.exit, json.stdout, JSON.parse(json.stderr).code]).toEqual([exit, "", code]);
});

test("a name that no fleet has is not found, and nothing else is asked", async () => {
  const { dir, asked } = await stackOf({ "GET /fleets?name=web": list() });
  for (const command of ["show", "delete", "instances"]) {
    const { exit, stderr } = await millrace(["fleets", command, "web", "--state-dir", dir]);
    expect([exit, stderr]).toEqual([3, expect.stringContaining("NAME_UNKNOWN")]);
  }
  expect(new Set(asked.map(({ request }) => request))).toEqual(new Set(["GET /fleets?name=web"]));
});

test.each([
  [["fleets", "create", "web"]],
  [["fleets", "create", "web", "--nodes", "-1"]],
  [["fleets", "create", "web", "--nodes", "1", "--slots", "0"]],
  [["fleets", "resize", "web"]],
  [["fleets", "show"]],
])("%j is a usage error", async (args) => {
  expect(await millrace(args)).toMatchObject({ exit: 2, stdout: "" });
});
