import { beforeEach, expect, test } from "vitest";
import type { VolumeJson } from "../../../functions/api/json.ts";
import { createLocalCloud } from "../../../functions/cloud/local.ts";
import { pipelines } from "../../../functions/pipelines/index.ts";
import {
  fetchPipeline,
  type Item,
  itemBody,
  type Ports,
  recordedEvents,
  systemClock,
  workBatch,
} from "../../../lib/index.ts";
import { useApi } from "../api/running-api.ts";
import { type RunningCloud, runCloud } from "../cloud/running.ts";

const api = useApi();
let running: RunningCloud;
beforeEach(async () => {
  running = await runCloud();
});

/** One fetch and one worker, as the functions do it; the items that were sent. */
async function pass(): Promise<readonly Item[]> {
  const sent: Item[] = [];
  const { database } = api();
  const ports: Ports = {
    database,
    reader: { selectFrom: database.kysely.selectFrom.bind(database.kysely) },
    items: {
      async send(items) {
        sent.push(...items);
        return items.map(() => "accepted" as const);
      },
    },
    hints: { send: async () => {} },
    wakeHeartbeater: async () => {},
    events: recordedEvents(),
    clock: systemClock,
    random: Math.random,
    timeLeft: () => 60_000,
  };
  await fetchPipeline(pipelines, "volumes", ports);
  const messages = sent.map((item) => ({ messageId: item.id, body: itemBody(item) }));
  await workBatch(pipelines, messages, { cloud: createLocalCloud(running.cloud.url) }, "worker", ports);
  return sent;
}

async function call(method: string, path: string, body?: unknown) {
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await api().app.request(path, { method, ...content });
  return { status: response.status, json: (await response.json()) as VolumeJson };
}
const create = async (name: string) => (await call("POST", "/volumes", { name, sizeGb: 10 })).json.id;
/** Instead of waiting for the back-off. */
const makeDue = (id: string) => api().sql("update volumes set due_at = now() where id = $1 and due_at > now()", [id]);
const outcomes = () => running.cloud.log.lines().map(({ op, outcome }) => `${op} ${outcome}`);

test("a volume is created, needs no further pass, and is deleted with its row", async () => {
  const id = await create("data");
  await pass();
  expect((await call("GET", `/volumes/${id}`)).json).toMatchObject({
    status: "active",
    attempts: 0,
    nextTryAt: null,
    lockOwner: null,
    lockExpiresAt: null,
  });
  expect(running.directories()).toHaveLength(1);
  expect(await pass()).toEqual([]);

  await call("DELETE", `/volumes/${id}`);
  await pass();
  expect((await call("GET", `/volumes/${id}`)).status).toBe(404);
  expect(running.directories()).toEqual([]);
  expect(outcomes()).toEqual(["createVolume created", "deleteVolume deleted"]);
  expect(await api().sql("select 1 from millrace.items where finished_at is null")).toEqual([]);
});

test("a create whose answer was lost is found again by its key", async () => {
  const id = await create("lost");
  running.cloud.faults.add({ match: "lost", kind: "killCaller", seconds: 0, count: 1 });
  await pass();
  expect((await call("GET", `/volumes/${id}`)).json).toMatchObject({
    status: "submitted",
    attempts: 1,
    lastError: expect.stringContaining("no answer from the cloud"),
    nextTryAt: expect.any(String),
  });
  await makeDue(id);
  await pass();
  expect((await call("GET", `/volumes/${id}`)).json).toMatchObject({ status: "active", attempts: 0 });
  expect(running.directories()).toHaveLength(1);
  expect(outcomes()).toEqual(["createVolume killed", "createVolume existing"]);
  expect(new Set(running.cloud.log.lines().map(({ key }) => key)).size).toBe(1);
});

test("deleting finds what a lost create left behind, although the row knows of nothing", async () => {
  const id = await create("orphan");
  running.cloud.faults.add({ match: "orphan", kind: "killCaller", seconds: 0, count: 1 });
  await pass();
  expect(await api().sql("select provider_id from volumes where id = $1", [id])).toEqual([{ provider_id: null }]);
  expect(running.directories()).toHaveLength(1);

  await call("DELETE", `/volumes/${id}`);
  await pass();
  expect((await call("GET", `/volumes/${id}`)).status).toBe(404);
  expect(running.directories()).toEqual([]);
});

test("after five failed attempts a volume is failed; deleting it still works", async () => {
  const id = await create("poison");
  running.cloud.faults.add({ match: "poison", kind: "fail", seconds: 0, count: 100 });
  for (let attempt = 1; attempt <= 5; attempt++) {
    await makeDue(id);
    await pass();
    expect((await call("GET", `/volumes/${id}`)).json.attempts).toBe(attempt);
  }
  expect((await call("GET", `/volumes/${id}`)).json).toMatchObject({
    status: "failed",
    lastError: expect.stringContaining("was made to fail"),
    nextTryAt: null,
    lockOwner: null,
  });
  expect(await pass()).toEqual([]);

  running.cloud.faults.clear();
  await call("DELETE", `/volumes/${id}`);
  await pass();
  expect((await call("GET", `/volumes/${id}`)).status).toBe(404);
});

test("a deletion that fails keeps the row and is tried again", async () => {
  const id = await create("sticky");
  await pass();
  running.cloud.faults.add({ match: "deleteVolume", kind: "fail", seconds: 0, count: 1 });
  await call("DELETE", `/volumes/${id}`);
  await pass();
  expect((await call("GET", `/volumes/${id}`)).json).toMatchObject({ status: "deleting", attempts: 1 });
  expect(running.directories()).toHaveLength(1);
  await makeDue(id);
  await pass();
  expect((await call("GET", `/volumes/${id}`)).status).toBe(404);
  expect(running.directories()).toEqual([]);
});
