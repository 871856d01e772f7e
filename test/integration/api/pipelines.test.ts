import { expect, test } from "vitest";
import type { ListJson, PipelineJson, ProblemJson } from "../../../functions/api/json.ts";
import { useApi } from "./running-api.ts";

const api = useApi();

async function call<T>(method: string, path: string, body?: unknown) {
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await api().app.request(path, { method, ...content });
  return { status: response.status, json: (await response.json()) as T };
}
const volumes = async () => (await call<ListJson<PipelineJson>>("GET", "/pipelines")).json.items[0];

test("a pipeline shows what is in flight, due, failed and dead", async () => {
  expect(await volumes()).toEqual({
    name: "volumes",
    table: "volumes",
    pausedAt: null,
    pausedBy: null,
    fetchedAt: null,
    inFlight: { locked: 0, queued: 0, processing: 0 },
    due: 0,
    failed: 0,
    dead: 0,
  });
  await api().sql(`insert into volumes (name, size_gb, status, due_at, lock_expires_at) values
    ('due', 1, 'submitted', now() - interval '1 s', null), ('expired', 1, 'submitted', now() - interval '1 s', now() - interval '1 s'),
    ('held', 1, 'submitted', now() - interval '1 s', now() + interval '1 h'), ('later', 1, 'submitted', now() + interval '1 h', null),
    ('never', 1, 'submitted', null, null), ('active', 1, 'active', now() - interval '1 s', null)`);
  await api().sql(`insert into millrace.items (item_id, pipeline, state, finished_at)
    select gen_random_uuid(), 'volumes', s, f::timestamptz from (values ('locked', null), ('queued', null), ('queued', null),
      ('processing', null), ('failed', '2026-11-30'), ('dead', '2026-11-30'), ('applied', '2026-11-30')) v (s, f)`);
  expect(await volumes()).toMatchObject({
    inFlight: { locked: 1, queued: 2, processing: 1 },
    due: 2,
    failed: 1,
    dead: 1,
  });
});

test("pause says since when and by whom, resume ends it and hints", async () => {
  const paused = await call<PipelineJson>("POST", "/pipelines/volumes/pause", { by: "Ann" });
  expect(paused).toMatchObject({ status: 200, json: { pausedBy: "Ann", pausedAt: expect.stringMatching(/Z$/) } });
  expect(await volumes()).toMatchObject({ pausedBy: "Ann" });

  api().hints.length = 0;
  const resumed = await call<PipelineJson>("POST", "/pipelines/volumes/resume");
  expect(resumed).toMatchObject({ status: 200, json: { pausedAt: null, pausedBy: null } });
  expect(api().hints).toEqual(['{"v":1,"pipeline":"volumes"}']);
});

test("a hint is for a pipeline or a table", async () => {
  api().hints.length = 0;
  for (const target of [{ pipeline: "volumes" }, { table: "volumes" }]) {
    expect((await call("POST", "/hints", target)).status).toBe(202);
  }
  expect(api().hints).toEqual(['{"v":1,"pipeline":"volumes"}', '{"v":1,"pipeline":"volumes"}']);
});

test.each([
  ["/pipelines/nope/pause", { by: "Ann" }, 404, "PIPELINE_UNKNOWN"],
  ["/pipelines/nope/resume", undefined, 404, "PIPELINE_UNKNOWN"],
  ["/pipelines/volumes/pause", {}, 400, "BODY_INVALID"],
  ["/hints", { pipeline: "nope" }, 404, "PIPELINE_UNKNOWN"],
  ["/hints", { table: "nope" }, 404, "TABLE_UNKNOWN"],
  ["/hints", {}, 400, "BODY_INVALID"],
])("POST %s with %j answers the problem %i %s", async (path, body, status, code) => {
  const { json, ...answer } = await call<ProblemJson>("POST", path, body);
  expect([answer.status, json.code]).toEqual([status, code]);
});
