import { afterEach, describe, expect, test } from "vitest";
import type { EventJson, FleetJson, JobJson, ListJson, OutputJson, ProblemJson } from "../../../functions/api/json.ts";
import { openTransaction, stopReads } from "../../support/overlap.ts";
import { until } from "../../support/until.ts";
import { useApi } from "./running-api.ts";

const api = useApi();
const NOBODY = "6a1f7c1e-8c0e-4a52-9d0f-000000000000";
let names = 0;

afterEach(() => {
  api().clouds.url = "http://127.0.0.1:1";
});

async function call<T>(method: string, path: string, body?: unknown) {
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await api().app.request(path, { method, ...content });
  return { status: response.status, headers: response.headers, json: (await response.json()) as T };
}
const fleet = async () => (await call<FleetJson>("POST", "/fleets", { name: `f${++names}`, nodes: 0 })).json;
const volume = async (more = "false", name = `v${++names}`) => {
  const [row] = await api().sql(
    `insert into volumes (name, size_gb, to_be_deleted) values ($1, 1, ${more}) returning id`,
    [name],
  );
  return row?.["id"] as string;
};
const job = async (command: readonly string[] = ["true"], volumeIds: readonly string[] = []) =>
  (await call<JobJson>("POST", "/jobs", { fleetId: (await fleet()).id, command, volumeIds })).json;
const output = (id: string, from = 0) => call<OutputJson>("GET", `/jobs/${id}/output?from=${from}`);

test("a job is submitted with its command and volumes as they were given, and hinted", async () => {
  const { id: fleetId, name } = await fleet();
  const volumeIds = [await volume(), await volume()].toSorted().toReversed();
  const command = ["sh", "-c", 'echo "it\'s" :p0 $1 \\ \n📦', "", "--", "6a1f7c1e-8c0e-4a52-9d0f-0f0e6c9a1b2d"];
  api().hints.length = 0;
  const { status, headers, json } = await call<JobJson>("POST", "/jobs", { fleetId, command, volumeIds });
  expect([status, headers.get("location")]).toEqual([201, `/jobs/${json.id}`]);
  expect(json).toMatchObject({ fleetId, fleetName: name, command, volumeIds, status: "submitted" });
  expect(json).toMatchObject({ stopRequested: false, instanceId: null, exitCode: null, nextTryAt: json.createdAt });
  expect(api().hints).toContain('{"v":1,"pipeline":"jobs-submitted"}');
  expect((await call("GET", `/jobs/${json.id}`)).json).toEqual(json);
  const events = await call<ListJson<EventJson>>("GET", `/events?subjectId=${json.id}`);
  expect(events.json.items).toMatchObject([{ kind: "job", message: `Job was submitted to fleet ${name}` }]);
});

test("a create whose answer was lost makes one job", async () => {
  api().faults.add({ kind: "lostAnswer", match: "millrace:create jobs" });
  const { id, fleetId } = await job();
  expect(await api().sql("select id from jobs where fleet_id = $1", [fleetId])).toEqual([{ id }]);
  expect(await api().sql("select 1 as n from events where subject_id = $1", [id])).toHaveLength(1);
});

test.each([
  ["an unknown fleet", "JOB_FLEET_UNKNOWN"],
  ["a fleet that is being deleted", "JOB_FLEET_DELETING"],
  ["an unknown volume", "JOB_VOLUMES_UNKNOWN"],
  ["a volume that is being deleted", "JOB_VOLUMES_DELETING"],
])("a job for %s is refused with %s, and none is made", async (kind, code) => {
  const { id: fleetId } = await fleet();
  if (kind.startsWith("a fleet")) await call("DELETE", `/fleets/${fleetId}`);
  const volumeIds = [await volume()];
  if (kind === "an unknown volume") volumeIds.push(NOBODY);
  if (kind.startsWith("a volume")) volumeIds.push(await volume("true"));
  const body = { fleetId: kind === "an unknown fleet" ? NOBODY : fleetId, command: ["true"], volumeIds };
  const { status, json } = await call<ProblemJson>("POST", "/jobs", body);
  expect([status, json.code]).toEqual([422, code]);
  expect(await api().sql("select id from jobs where fleet_id = $1", [fleetId])).toEqual([]);
});

test("volumes of one name, and one whose name is no folder's, are refused together with the job", async () => {
  const { id: fleetId } = await fleet();
  for (const [names, code, words] of [
    [["twin", "twin"], "JOB_VOLUMES_SAME_NAME", "twin"],
    [["a/b"], "JOB_VOLUMES_NAME", "a/b"],
    [["."], "JOB_VOLUMES_NAME", "."],
    [["ok", ".."], "JOB_VOLUMES_NAME", ".."],
    [["ä".repeat(128)], "JOB_VOLUMES_NAME", "ä"],
  ] as const) {
    const volumeIds: string[] = [];
    for (const name of names) volumeIds.push(await volume("false", name));
    const { status, json } = await call<ProblemJson>("POST", "/jobs", { fleetId, command: ["true"], volumeIds });
    expect([status, json.code]).toEqual([422, code]);
    expect(json.detail).toContain(words);
  }
  expect(await api().sql("select id from jobs where fleet_id = $1", [fleetId])).toEqual([]);
  const volumeIds = [
    await volume("false", "..."),
    await volume("false", "Twin"),
    await volume("false", "ä".repeat(127)),
  ];
  expect((await call("POST", "/jobs", { fleetId, command: ["true"], volumeIds })).status).toBe(201);
});

describe.each(["fleet", "volume"])("a job for a %s whose deletion", (kind) => {
  async function race() {
    const { id: fleetId } = await fleet();
    const volumeId = await volume();
    const [table, id] = kind === "fleet" ? ["fleets", fleetId] : ["volumes", volumeId];
    const expected = kind === "fleet" ? "JOB_FLEET_DELETING" : "JOB_VOLUMES_DELETING";
    const submit = () => call<ProblemJson>("POST", "/jobs", { fleetId, command: ["true"], volumeIds: [volumeId] });
    const made = () => api().sql("select id from jobs where fleet_id = $1", [fleetId]);
    return { table, id, expected, submit, made };
  }
  /** Until the statement stops at a lock, or comes through. */
  const stopped = (answer: Promise<unknown>) =>
    Promise.race([
      answer,
      until(
        () =>
          api()
            .admin(`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
            and query like '%millrace:create jobs%'`)
            .then((rows) => rows.length > 0),
        { what: "the job's statement to wait" },
      ),
    ]);

  test("is under way waits for it, and is refused", async () => {
    const { table, id, expected, submit, made } = await race();
    await using deletion = await openTransaction({ database: api().testDatabase });
    await deletion.query(`update ${table} set to_be_deleted = true where id = $1`, [id]);
    const answer = submit();
    await stopped(answer);
    await deletion.commit();
    expect(await answer).toMatchObject({ status: 422, json: { code: expected } });
    expect(await made()).toEqual([]);
  });

  test("was committed after the job's snapshot is refused", async () => {
    const { table, id, expected, submit, made } = await race();
    await using reads = await stopReads({ database: api().testDatabase }, table as string);
    const answer = submit();
    await stopped(answer);
    await api().sql(`update ${table} set to_be_deleted = true where id = $1`, [id]);
    await reads.goOn();
    expect(await answer).toMatchObject({ status: 422, json: { code: expected } });
    expect(await made()).toEqual([]);
  });
});

test("jobs are listed by fleet and status", async () => {
  const a = await job();
  const b = await job();
  await api().sql("update jobs set status = 'done' where id = $1", [b.id]);
  const ids = async (query: string) =>
    (await call<ListJson<JobJson>>("GET", `/jobs?${query}`)).json.items.map(({ id }) => id);
  expect(await ids(`fleetId=${a.fleetId}`)).toEqual([a.id]);
  expect(await ids("status=done")).toEqual([b.id]);
  expect(await ids(`fleetId=${b.fleetId}&status=submitted`)).toEqual([]);
  expect(await ids("limit=2")).toEqual([b.id, a.id]);
});

test("a stop is stored while the job is held, told once, and does nothing to one that has ended", async () => {
  const { id } = await job();
  await api().sql(
    `update jobs set lock_owner = 'jobs-running', lock_token = gen_random_uuid(), lock_expires_at = now() + interval '1 h'
     where id = $1`,
    [id],
  );
  for (const _ of [1, 2])
    expect(await call("POST", `/jobs/${id}/stop`)).toMatchObject({ status: 202, json: { id, stopRequested: true } });
  const events = await call<ListJson<EventJson>>("GET", `/events?subjectId=${id}&direction=asc`);
  expect(events.json.items.map(({ message }) => message).slice(1)).toEqual(["Stop of the job was asked for"]);

  const { id: ended } = await job();
  await api().sql("update jobs set status = 'done' where id = $1", [ended]);
  expect(await call("POST", `/jobs/${ended}/stop`)).toMatchObject({ status: 202, json: { stopRequested: false } });
});

test("a job shows what the pipeline of its status knows of it", async () => {
  const { id } = await job();
  await api().sql(`insert into millrace.items (item_id, pipeline, state, attempts, last_error) values
    ('${id}', 'jobs-submitted', 'applied', 0, null), ('${id}', 'jobs-running', 'failed', 3, 'no answer')`);
  expect((await call<JobJson>("GET", `/jobs/${id}`)).json.attempts).toBe(0);
  await api().sql("update jobs set status = 'running' where id = $1", [id]);
  expect((await call<JobJson>("GET", `/jobs/${id}`)).json).toMatchObject({ attempts: 3, lastError: "no answer" });
});

test("the output of an ended job is read from its row, from a byte on; the cloud is not asked", async () => {
  const { id } = await job();
  expect((await output(id)).json).toEqual({ text: "", next: 0, ended: false });
  await api().sql("update jobs set status = 'done', command_id = 'c', output = $2 where id = $1", [id, "wörld\n"]);
  expect((await output(id)).json).toEqual({ text: "wörld\n", next: 7, ended: true });
  expect((await output(id, 3)).json).toEqual({ text: "rld\n", next: 7, ended: true });
  expect((await output(id, 7)).json).toEqual({ text: "", next: 7, ended: true });
});

test("a cloud that does not answer makes the output of a running job 503", async () => {
  const { id } = await job();
  await api().sql("update jobs set status = 'running', command_id = 'c' where id = $1", [id]);
  const { status, json, headers } = await call<ProblemJson>("GET", `/jobs/${id}/output`);
  expect([status, json.code, headers.get("retry-after")]).toEqual([503, "OUTPUT_UNREACHABLE", "5"]);
  expect(api().logged).toEqual([]);
});

test("events come in both directions, page by page", async () => {
  await api().sql("delete from events");
  await api().sql(`insert into events (kind, subject_id, message, at) select 'job', '${NOBODY}', 'E' || n,
    '2026-11-30T12:00:00Z'::timestamptz + n * interval '1 microsecond' from generate_series(1, 5) n`);
  for (const [direction, expected] of [
    ["asc", ["E1", "E2", "E3", "E4", "E5"]],
    ["desc", ["E5", "E4", "E3", "E2", "E1"]],
  ] as const) {
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const path: string = `/events?limit=2&direction=${direction}${cursor === null ? "" : `&cursor=${cursor}`}`;
      const { json } = await call<ListJson<EventJson>>("GET", path);
      seen.push(...json.items.map(({ message }) => message));
      cursor = json.nextCursor;
    } while (cursor !== null);
    expect(seen).toEqual(expected);
  }
});

test.each([
  ["GET", `/jobs/${NOBODY}`, 404, "JOB_UNKNOWN"],
  ["POST", `/jobs/${NOBODY}/stop`, 404, "JOB_UNKNOWN"],
  ["GET", `/jobs/${NOBODY}/output`, 404, "JOB_UNKNOWN"],
  ["GET", `/jobs/${NOBODY}/output?from=-1`, 400, "QUERY_INVALID"],
  ["GET", "/jobs?status=gone", 400, "QUERY_INVALID"],
  ["GET", "/jobs?fleetId=7", 400, "QUERY_INVALID"],
  ["GET", "/events?direction=up", 400, "QUERY_INVALID"],
])("%s %s answers the problem %i %s", async (method, path, status, code) => {
  const { json, ...answer } = await call<ProblemJson>(method, path);
  expect([answer.status, json.code]).toEqual([status, code]);
});
