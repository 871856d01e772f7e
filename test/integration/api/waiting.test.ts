import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import type { FleetJson, JobJson, ListJson } from "../../../functions/api/json.ts";
import { gate } from "../../support/gate.ts";
import { openTransaction } from "../../support/overlap.ts";
import { until } from "../../support/until.ts";
import { useApi } from "./running-api.ts";

/*
 * Requests that wait for somebody do so outside of any transaction: an open one would keep its connection, and the rows
 * that it has locked, from everybody else. Each test first makes sure that the wait has begun, and that it still goes on
 * after it has looked.
 */

const api = useApi();

async function call<T>(method: string, path: string, body?: unknown) {
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await api().app.request(path, { method, ...content });
  return { status: response.status, json: (await response.json()) as T };
}
let names = 0;
const fleet = async () => (await call<FleetJson>("POST", "/fleets", { name: `f${++names}`, nodes: 1 })).json;
const hold = (table: string, id: string) =>
  api().sql(
    `update ${table} set lock_owner = '${table}', lock_token = gen_random_uuid(), lock_expires_at = now() + interval '1 h'
     where id = $1`,
    [id],
  );
const free = (table: string, id: string) =>
  api().sql(`update ${table} set lock_owner = null, lock_token = null, lock_expires_at = null where id = $1`, [id]);

/** Sessions of the application's role that are in a transaction now. */
async function inTransaction() {
  const [row] = await api().admin(`select count(*)::int as n from pg_stat_activity
    where datname = current_database() and usename = 'millrace_app' and xact_start is not null`);
  return (row?.["n"] as number) + api().stats().transactions;
}

const calls = () => api().stats().calls;
/** Waits for another look of the one who waits, then for a moment without any transaction; twice. */
async function waitsOutside(answer: Promise<unknown>) {
  let answered = false;
  void answer.finally(() => {
    answered = true;
  });
  for (const _ of [1, 2]) {
    const before = calls();
    await until(() => calls() > before, { what: "another try" });
    await until(async () => (await inTransaction()) === 0, { what: "a moment without a transaction" });
    expect(answered).toBe(false);
  }
}

test("the sight of a transaction: one of the application's role is seen", async () => {
  const { database } = api();
  const held = gate();
  const working = database.read("look", (db) => db.transaction().execute(() => held.pass()));
  await held.reached;
  expect(await inTransaction()).toBeGreaterThan(0);
  held.open();
  await working;
  await until(async () => (await inTransaction()) === 0, { what: "its end" });
});

test("PATCH /fleets/{id} waits for the row outside of any transaction", async () => {
  const { id } = await fleet();
  await hold("fleets", id);
  const answer = call<FleetJson>("PATCH", `/fleets/${id}`, { nodes: 5 });
  await waitsOutside(answer);
  await free("fleets", id);
  expect(await answer).toMatchObject({ status: 200, json: { id, nodes: 5 } });
});

test("DELETE /fleets/{id}/instances waits for the rows outside of any transaction", async () => {
  const { id } = await fleet();
  const [row] = await api().sql("insert into instances (fleet_id, number, slots) values ($1, 1, 1) returning id", [id]);
  const instance = row?.["id"] as string;
  await hold("instances", instance);
  const answer = call<ListJson<unknown>>("DELETE", `/fleets/${id}/instances`, { ids: [instance] });
  await waitsOutside(answer);
  await free("instances", instance);
  expect(await answer).toMatchObject({ status: 202, json: { items: [{ id: instance, status: "terminating" }] } });
});

test("POST /fleets waits for the lock on its name outside of any transaction", async () => {
  await using other = await openTransaction({ database: api().testDatabase });
  await other.query("select pg_advisory_xact_lock(hashtextextended($1, 0))", [JSON.stringify(["fleets", "wanted"])]);
  const answer = call<FleetJson>("POST", "/fleets", { name: "wanted", nodes: 0 });
  await waitsOutside(answer);
  await other.commit();
  expect(await answer).toMatchObject({ status: 201, json: { name: "wanted" } });
});

test("GET /jobs/{id}/output waits for the cloud outside of any transaction", async () => {
  const asked = gate();
  const cloud = createServer(async (_request, response) => {
    await asked.pass();
    response.end(JSON.stringify({ text: "late", next: 4 }));
  });
  await new Promise<void>((resolve) => cloud.listen(0, "127.0.0.1", resolve));
  api().clouds.url = `http://127.0.0.1:${(cloud.address() as AddressInfo).port}`;
  try {
    const { json } = await call<JobJson>("POST", "/jobs", { fleetId: (await fleet()).id, command: ["true"] });
    await api().sql("update jobs set status = 'running', command_id = 'c' where id = $1", [json.id]);
    const answer = call("GET", `/jobs/${json.id}/output`);
    await asked.reached;
    expect(await inTransaction()).toBe(0);
    asked.open();
    expect(await answer).toEqual({ status: 200, json: { text: "late", next: 4, ended: false } });
  } finally {
    cloud.close();
  }
});
