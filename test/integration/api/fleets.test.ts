import { expect, test } from "vitest";
import type { EventJson, FleetJson, InstanceJson, ListJson, ProblemJson } from "../../../functions/api/json.ts";
import { until } from "../../support/until.ts";
import { useApi } from "./running-api.ts";

const api = useApi();
const NOBODY = "6a1f7c1e-8c0e-4a52-9d0f-000000000000";

async function call<T>(method: string, path: string, body?: unknown) {
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await api().app.request(path, { method, ...content });
  return { status: response.status, headers: response.headers, json: (await response.json()) as T };
}
const create = async (name: string, nodes = 2) =>
  (await call<FleetJson>("POST", "/fleets", { name, nodes, slots: 2 })).json;
const eventsOf = async (id: string) =>
  (await call<ListJson<EventJson>>("GET", `/events?subjectId=${id}&direction=asc`)).json.items.map((e) => e.message);

/** Instances 1, 2, … of a fleet. */
async function instances(fleetId: string, ...states: readonly [status: string, busy: number][]) {
  const ids: string[] = [];
  for (const [n, [status, busy]] of states.entries()) {
    const [row] = await api().sql(
      "insert into instances (fleet_id, number, slots, status, busy) values ($1, $2, 2, $3, $4) returning id",
      [fleetId, n + 1, status, busy],
    );
    ids.push(row?.["id"] as string);
  }
  return ids;
}
const hold = (table: string, id: string) =>
  api().sql(
    `update ${table} set lock_owner = '${table}', lock_token = gen_random_uuid(), lock_expires_at = now() + interval '1 h'
     where id = $1`,
    [id],
  );
test("a fleet is made, hinted, shown with its instances, and tells of it", async () => {
  api().hints.length = 0;
  const { status, headers, json } = await call<FleetJson>("POST", "/fleets", { name: "web", nodes: 3 });
  expect([status, headers.get("location")]).toEqual([201, `/fleets/${json.id}`]);
  expect(json).toMatchObject({ name: "web", nodes: 3, slots: 1, status: "active", statusMessage: null, instances: {} });
  expect(json).toMatchObject({ attempts: 0, nextTryAt: json.createdAt, lockOwner: null });
  expect(api().hints).toEqual(['{"v":1,"pipeline":"fleets"}']);
  await instances(json.id, ["idle", 0], ["idle", 0], ["pending", 0]);
  expect((await call<FleetJson>("GET", `/fleets/${json.id}`)).json.instances).toEqual({ idle: 2, pending: 1 });
  expect(await eventsOf(json.id)).toEqual(["Fleet web was created with 3 nodes"]);

  const found = await call<ListJson<FleetJson>>("GET", "/fleets?name=web");
  expect(found.json.items.map(({ id }) => id)).toEqual([json.id]);
  expect((await call<ListJson<FleetJson>>("GET", "/fleets?name=we")).json.items).toEqual([]);
});

test("a name is taken once: of many who want it at once, one gets it", async () => {
  const answers = await Promise.all(
    Array.from({ length: 6 }, () => call<ProblemJson>("POST", "/fleets", { name: "wanted", nodes: 0 })),
  );
  expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409, 409, 409, 409, 409]);
  const refused = answers.filter(({ status }) => status === 409);
  expect(new Set(refused.map(({ json }) => json.code))).toEqual(new Set(["NAME_TAKEN"]));
});

test("a name that somebody else inserted meanwhile is taken, too", async () => {
  await api().sql(`create function race() returns trigger language plpgsql as
    'begin raise unique_violation; end'`);
  await api().sql("create trigger race before insert on fleets for each row execute function race()");
  const { status, json } = await call<ProblemJson>("POST", "/fleets", { name: "raced", nodes: 0 });
  await api().sql("drop function race cascade");
  expect([status, json.code]).toEqual([409, "NAME_TAKEN"]);
  expect(api().logged).toEqual([]);
});

test.each(["insert into fleets", "COMMIT"])("a create whose answer to %s was lost makes one fleet", async (match) => {
  const name = `once ${match}`;
  api().faults.add({ kind: "lostAnswer", match });
  const { status, json } = await call<FleetJson>("POST", "/fleets", { name, nodes: 0 });
  expect(status).toBe(201);
  expect(await api().sql("select id from fleets where name = $1", [name])).toEqual([{ id: json.id }]);
  expect(await eventsOf(json.id)).toHaveLength(1);
});

test("a fleet that stays held is 423, and says when to come back", async () => {
  const { id } = await create("held");
  await hold("fleets", id);
  const { status, json, headers } = await call<ProblemJson>("PATCH", `/fleets/${id}`, { nodes: 5 });
  expect([status, json.code, headers.get("retry-after")]).toEqual([423, "ROW_LOCKED", "1"]);
});

test("a deletion is stored while the fleet is held; then it cannot be resized", async () => {
  const { id } = await create("doomed");
  await hold("fleets", id);
  for (const _ of [1, 2]) {
    expect(await call("DELETE", `/fleets/${id}`)).toMatchObject({ status: 202, json: { id, status: "deleting" } });
  }
  expect((await eventsOf(id)).filter((message) => message.startsWith("Deletion"))).toHaveLength(1);
  const resize = await call<ProblemJson>("PATCH", `/fleets/${id}`, { nodes: 1 });
  expect([resize.status, resize.json.code]).toEqual([409, "FLEET_DELETING"]);
});

test("instances are listed, shown and terminated", async () => {
  const { id } = await create("full");
  const [a = "", b = ""] = await instances(id, ["idle", 0], ["pending", 0]);
  const list = await call<ListJson<InstanceJson>>("GET", `/fleets/${id}/instances?limit=1`);
  expect(list.json.items).toHaveLength(1);
  expect(list.json.nextCursor).not.toBeNull();
  expect((await call<InstanceJson>("GET", `/instances/${a}`)).json).toMatchObject({
    id: a,
    fleetId: id,
    number: 1,
    status: "idle",
    busy: 0,
    slots: 2,
    providerId: null,
  });
  const { status, json } = await call<ListJson<InstanceJson>>("DELETE", `/fleets/${id}/instances`, { ids: [b, a] });
  expect([status, json.items.map((row) => [row.id, row.status])]).toEqual([
    202,
    [
      [b, "terminating"],
      [a, "terminating"],
    ],
  ]);
  expect(await eventsOf(a)).toEqual(["Termination of instance 1 was asked for"]);
});

test.each(["busy", "foreign", "held"])("with one that is %s, no instance is terminated", async (kind) => {
  const { id } = await create(`all or none, ${kind}`);
  const [a = "", b = ""] = await instances(id, ["idle", 0], kind === "busy" ? ["busy", 1] : ["idle", 0]);
  if (kind === "held") await hold("instances", b);
  const ids = kind === "foreign" ? [a, NOBODY] : [a, b];
  const { status, json } = await call<ProblemJson>("DELETE", `/fleets/${id}/instances`, { ids });
  expect([status, json.code]).toEqual(
    { busy: [409, "INSTANCES_BUSY"], foreign: [422, "INSTANCES_FOREIGN"], held: [423, "ROW_LOCKED"] }[kind],
  );
  expect(await api().sql("select status, lock_token from instances where id = $1", [a])).toEqual([
    { status: "idle", lock_token: null },
  ]);
});

test("a lock that is lost before the instances are written leaves all of them as they were", async () => {
  const { id } = await create("stolen");
  const [a = "", b = ""] = await instances(id, ["idle", 0], ["idle", 0]);
  api().faults.add({ kind: "delay", seconds: 0.5, match: "millrace:held-update instances" });
  const answer = call<ProblemJson>("DELETE", `/fleets/${id}/instances`, { ids: [a, b] });
  await until(() => api().faults.list().length === 0, { what: "the write to be under way" });
  await hold("instances", b);
  expect(await answer).toMatchObject({ status: 423, json: { code: "ROW_LOCKED" } });
  expect(await api().sql("select status from instances where fleet_id = $1", [id])).toEqual([
    { status: "idle" },
    { status: "idle" },
  ]);
  expect([await eventsOf(a), await eventsOf(b)]).toEqual([[], []]);
  expect(api().logged).toEqual([]);
});

test.each([
  ["GET", `/fleets/${NOBODY}`, undefined, 404, "FLEET_UNKNOWN"],
  ["PATCH", `/fleets/${NOBODY}`, { nodes: 1 }, 404, "FLEET_UNKNOWN"],
  ["DELETE", `/fleets/${NOBODY}`, undefined, 404, "FLEET_UNKNOWN"],
  ["GET", `/fleets/${NOBODY}/instances`, undefined, 404, "FLEET_UNKNOWN"],
  ["DELETE", `/fleets/${NOBODY}/instances`, { ids: [NOBODY] }, 404, "FLEET_UNKNOWN"],
  ["GET", `/instances/${NOBODY}`, undefined, 404, "INSTANCE_UNKNOWN"],
  ["PATCH", "/fleets/7", { nodes: 1 }, 400, "ID_INVALID"],
  ["POST", "/fleets", { name: NOBODY, nodes: 1 }, 400, "BODY_INVALID"],
  ["POST", "/fleets", { name: "a", nodes: 101 }, 400, "BODY_INVALID"],
])("%s %s with %j answers the problem %i %s", async (method, path, body, status, code) => {
  const { json, ...answer } = await call<ProblemJson>(method, path, body);
  expect([answer.status, json.code]).toEqual([status, code]);
});

test("a fleet that goes while it is resized is not there", async () => {
  const { id } = await create("vanishing");
  await hold("fleets", id);
  const tries = () => api().stats().statements["millrace:update fleets"] ?? 0;
  const before = tries();
  const answer = call<ProblemJson>("PATCH", `/fleets/${id}`, { nodes: 5 });
  await until(() => tries() >= before + 2, { what: "the resize to be tried" });
  // as its pipeline deletes it
  await api().sql(
    "with told as materialized (select set_config('millrace.deleting', 'on', true) as it) delete from fleets where id = $1 and (select it from told) is not null",
    [id],
  );
  expect(await answer).toMatchObject({ status: 404, json: { code: "FLEET_UNKNOWN" } });
});
