import { expect, test } from "vitest";
import type { ListJson, ProblemJson, VolumeJson } from "../../../functions/api/json.ts";
import { useApi } from "./running-api.ts";

const api = useApi();

async function call<T>(method: string, path: string, body?: unknown) {
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await api().app.request(path, { method, ...content });
  return { status: response.status, headers: response.headers, json: (await response.json()) as T };
}
const create = (name: string) => call<VolumeJson>("POST", "/volumes", { name, sizeGb: 10 });

test("a create whose answer was lost makes one row", async () => {
  api().faults.add({ kind: "lostAnswer", match: "insert into volumes" });
  const { status, json } = await create("once");
  expect(status).toBe(201);
  expect(await api().sql("select id from volumes where name = 'once'")).toEqual([{ id: json.id }]);
});

test("a deletion whose answer was lost is stored once and answered", async () => {
  const { json } = await create("doomed");
  api().faults.add({ kind: "lostAnswer", match: "millrace:request volumes" });
  const { status } = await call<VolumeJson>("DELETE", `/volumes/${json.id}`);
  expect(status).toBe(202);
});

test("reads are repeated when the database wakes up, pages too", async () => {
  const { json } = await create("patient");
  for (const path of [`/volumes/${json.id}`, "/volumes?limit=1", "/pipelines"]) {
    api().faults.add({ kind: "error", code: "40001", match: "select" });
    expect((await call<ListJson<VolumeJson>>("GET", path)).status).toBe(200);
    expect(api().faults.list()).toEqual([]);
  }
});

test("a database that does not wake up in time is 503, with the seconds to wait", async () => {
  const { json } = await create("sleepy");
  api().limits.timeLeftMs = 1500;
  api().faults.add({ kind: "resuming", count: 1000 });
  for (const [method, path, body] of [
    ["POST", "/volumes", { name: "a", sizeGb: 1 }],
    ["GET", "/volumes", undefined],
    ["GET", `/volumes/${json.id}`, undefined],
    ["DELETE", `/volumes/${json.id}`, undefined],
    ["GET", "/pipelines", undefined],
    ["POST", "/pipelines/volumes/pause", { by: "Ann" }],
  ] as const) {
    const answer = await call<ProblemJson>(method, path, body);
    expect([answer.status, answer.json.code, answer.headers.get("retry-after")]).toEqual([
      503,
      "DATABASE_RESUMING",
      "5",
    ]);
  }
  expect(api().logged).toEqual([]);
});

test("a statement that fails for good is 500, logged, and says nothing of itself", async () => {
  api().faults.add({ kind: "error", code: "42501", match: "from volumes v" });
  const { status, json } = await call<ProblemJson>("GET", "/volumes/6a1f7c1e-8c0e-4a52-9d0f-0f0e6c9a1b2d");
  expect([status, json.code]).toEqual([500, "INTERNAL"]);
  expect(json.detail).not.toContain("42501");
  expect(api().logged).toHaveLength(1);
});
