import { expect, test } from "vitest";
import type { ListJson, ProblemJson, VolumeJson } from "../../../functions/api/json.ts";
import { until } from "../../support/until.ts";
import { useApi } from "./running-api.ts";

const api = useApi();

async function call<T>(method: string, path: string, body?: unknown) {
  const content = body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) };
  const response = await api().app.request(path, { method, ...content });
  return { status: response.status, headers: response.headers, json: (await response.json()) as T };
}
const create = async (name: string) => (await call<VolumeJson>("POST", "/volumes", { name, sizeGb: 10 })).json;
const show = (id: string) => call<VolumeJson>("GET", `/volumes/${id}`);

test("a volume is submitted, due at once, and hinted", async () => {
  const { hints } = api();
  hints.length = 0;
  const { status, headers, json } = await call<VolumeJson>("POST", "/volumes", { name: "data", sizeGb: 10 });
  expect(status).toBe(201);
  expect(headers.get("location")).toBe(`/volumes/${json.id}`);
  expect(json).toEqual({
    id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    name: "data",
    sizeGb: 10,
    status: "submitted",
    attempts: 0,
    lastError: null,
    nextTryAt: json.createdAt,
    lockOwner: null,
    lockExpiresAt: null,
    createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
    lastProcessedAt: json.createdAt,
  });
  expect(Math.abs(Date.parse(json.createdAt) - Date.now())).toBeLessThan(60_000);
  expect(hints).toEqual(['{"v":1,"pipeline":"volumes"}']);
  expect((await show(json.id)).json).toEqual(json);
});

test.each(["it's; drop table volumes --", "Jörg 📦", "6a1f7c1e-8c0e-4a52-9d0f-0f0e6c9a1b2d", "7", ":p0 $1 ?", "null"])(
  "the name %j comes back as it was",
  async (name) => {
    const { id } = await create(name);
    expect((await show(id)).json.name).toBe(name);
  },
);

test("what the engine knows of a row is shown: attempts, last error, next try, lock", async () => {
  const { id } = await create("held");
  await api().sql(
    `update volumes set lock_owner = 'volumes', lock_token = gen_random_uuid(), lock_expires_at = '2026-11-30T12:00:30.123456Z',
     due_at = '2026-11-30T12:00:04Z' where id = $1`,
    [id],
  );
  await api().sql(
    `insert into millrace.items (item_id, pipeline, state, attempts, last_error) values ($1, 'volumes', 'processing', 2, 'no disks')`,
    [id],
  );
  expect((await show(id)).json).toMatchObject({
    status: "submitted",
    attempts: 2,
    lastError: "no disks",
    nextTryAt: "2026-11-30T12:00:04.000Z",
    lockOwner: "volumes",
    lockExpiresAt: "2026-11-30T12:00:30.123Z",
  });
});

test("a deletion is stored while the row is held, makes it due and is hinted; it may be repeated", async () => {
  const { id } = await create("doomed");
  await api().sql(
    `update volumes set lock_owner = 'volumes', lock_token = gen_random_uuid(), lock_expires_at = now() + interval '1 hour',
     due_at = null where id = $1`,
    [id],
  );
  api().hints.length = 0;
  for (const _ of [1, 2]) {
    const { status, json } = await call<VolumeJson>("DELETE", `/volumes/${id}`);
    expect([status, json.status, json.lockOwner]).toEqual([202, "deleting", "volumes"]);
    expect(json.nextTryAt).not.toBeNull();
  }
  expect(api().hints).toHaveLength(2);
  expect(await api().sql("select to_be_deleted from volumes where id = $1", [id])).toEqual([{ to_be_deleted: true }]);
});

test("a dead volume is failed, and a deletion revives it", async () => {
  const { id } = await create("poison");
  await api().sql(
    `insert into millrace.items (item_id, pipeline, state, attempts, last_error, finished_at)
     values ($1, 'volumes', 'dead', 5, 'no disks', now())`,
    [id],
  );
  await api().sql("update volumes set due_at = null where id = $1", [id]);
  expect((await show(id)).json).toMatchObject({ status: "failed", attempts: 5, nextTryAt: null });
  const { json } = await call<VolumeJson>("DELETE", `/volumes/${id}`);
  expect(json).toMatchObject({ status: "deleting", attempts: 0, nextTryAt: expect.any(String) });
});

test("a deletion that is carried out before it is answered was accepted all the same", async () => {
  const { id } = await create("fast");
  await api().sql(`create function carry_out() returns trigger language plpgsql as
    'begin delete from volumes where id = new.id; return null; end'`);
  await api().sql(
    "create trigger carry_out after update on volumes for each row when (new.to_be_deleted) execute function carry_out()",
  );
  const { status, json } = await call<VolumeJson>("DELETE", `/volumes/${id}`);
  await api().sql("drop function carry_out cascade");
  expect([status, json.id, json.status]).toEqual([202, id, "deleting"]);
  expect((await show(id)).status).toBe(404);
});

test("a volume that goes while its deletion is asked for is not there", async () => {
  const { id } = await create("gone");
  api().faults.add({ kind: "delay", seconds: 0.3, match: "millrace:request volumes" });
  const deletion = call<ProblemJson>("DELETE", `/volumes/${id}`);
  await until(() => api().faults.list().length === 0, { what: "the request to be under way" });
  await api().sql("delete from volumes where id = $1", [id]);
  expect(await deletion).toMatchObject({ status: 404, json: { code: "VOLUME_UNKNOWN" } });
});

test("pages hold every volume once, newest first, also of one instant", async () => {
  await api().sql("truncate volumes, attachments");
  const made = await api().sql(
    `insert into volumes (name, size_gb, created_at) select 'v' || n, 1, '2026-11-30T12:00:00.000001Z'::timestamptz + (n / 3) * interval '1 microsecond'
     from generate_series(1, 10) n returning id`,
  );
  const seen: VolumeJson[] = [];
  const sizes: number[] = [];
  let cursor: string | null = null;
  do {
    const path: string = `/volumes?limit=4${cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`}`;
    const { json } = await call<ListJson<VolumeJson>>("GET", path);
    seen.push(...json.items);
    sizes.push(json.items.length);
    cursor = json.nextCursor;
  } while (cursor !== null);
  expect(sizes).toEqual([4, 4, 2]);
  expect(seen.map(({ id }) => id).toSorted()).toEqual(made.map(({ id }) => id as string).toSorted());
  expect(seen[0]?.name).toMatch(/^v(9|10)$/);
  expect(seen.at(-1)?.name).toMatch(/^v[12]$/);
});

test("a list can be of one status", async () => {
  await api().sql("truncate volumes, attachments");
  const [, active, doomed, dead] = [await create("a"), await create("b"), await create("c"), await create("d")];
  await api().sql("update volumes set status = 'active' where id = $1", [active?.id]);
  await api().sql("update volumes set status = 'active', to_be_deleted = true where id = $1", [doomed?.id]);
  await api().sql("insert into millrace.items (item_id, pipeline, state) values ($1, 'volumes', 'dead')", [dead?.id]);
  for (const [status, name] of [
    ["submitted", "a"],
    ["active", "b"],
    ["deleting", "c"],
    ["failed", "d"],
  ]) {
    const { json } = await call<ListJson<VolumeJson>>("GET", `/volumes?status=${status}`);
    expect(json.items.map((volume) => [volume.status, volume.name])).toEqual([[status, name]]);
  }
});

test.each([
  ["POST", "/volumes", '{"name":"a"}', 400, "BODY_INVALID", "sizeGb"],
  ["POST", "/volumes", "nope", 400, "BODY_MALFORMED", "JSON"],
  ["GET", "/volumes?limit=0", undefined, 400, "QUERY_INVALID", "limit"],
  ["GET", "/volumes?cursor=abc", undefined, 400, "CURSOR_MALFORMED", "cursor"],
  ["GET", "/volumes/7", undefined, 400, "ID_INVALID", "id"],
  ["DELETE", "/volumes/7", undefined, 400, "ID_INVALID", "id"],
  ["GET", "/volumes/6a1f7c1e-8c0e-4a52-9d0f-000000000000", undefined, 404, "VOLUME_UNKNOWN", "6a1f7c1e"],
  ["DELETE", "/volumes/6a1f7c1e-8c0e-4a52-9d0f-000000000000", undefined, 404, "VOLUME_UNKNOWN", "6a1f7c1e"],
  ["GET", "/nothing", undefined, 404, "ROUTE_UNKNOWN", "GET /nothing"],
  ["PUT", "/volumes", "{}", 404, "ROUTE_UNKNOWN", "PUT /volumes"],
])("%s %s with %s answers the problem %i %s", async (method, path, body, status, code, words) => {
  const { headers, json, ...answer } = await call<ProblemJson>(method, path, body);
  expect([answer.status, json.status, json.code]).toEqual([status, status, code]);
  expect(headers.get("content-type")).toBe("application/problem+json");
  expect(json.detail).toContain(words);
  expect(api().logged).toEqual([]);
});
