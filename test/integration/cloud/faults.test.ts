import { expect, test } from "vitest";
import { until } from "../../support/until.ts";
import { post, runCloud, volume } from "./running.ts";

const outcomes = (running: Awaited<ReturnType<typeof runCloud>>) =>
  running.cloud.log.lines().map(({ outcome }) => outcome);

test("a slow create completes although its caller went away", async () => {
  const running = await runCloud();
  const { cloud, directories } = running;
  await post(`${cloud.url}/faults`, { match: "createVolume", kind: "delay", seconds: 0.2, count: 1 });
  const caller = new AbortController();
  const call = post(`${cloud.url}/volumes`, volume("k1"), caller.signal);
  await until(() => cloud.faults.list().length === 0, { what: "the create to have begun" });
  caller.abort();
  await expect(call).rejects.toThrow();
  expect(directories()).toEqual([]);

  await until(() => directories().length === 1, { what: "the directory of the abandoned create" });
  expect((await post(`${cloud.url}/volumes`, volume("k1"))).status).toBe(200);
  expect(directories()).toHaveLength(1);
  expect(outcomes(running)).toEqual(["created", "existing"]);
});

test("deleting a tag wins over a create of it that is still under way", async () => {
  const { cloud, directories } = await runCloud();
  cloud.faults.add({ match: "createVolume", kind: "delay", seconds: 0.2, count: 1 });
  const create = post(`${cloud.url}/volumes`, volume("k1", "a", "row-1"));
  await until(() => cloud.faults.list().length === 0, { what: "the create to have begun" });
  await fetch(`${cloud.url}/volumes?tag=row-1&name=a`, { method: "DELETE" });

  expect((await create).status).toBe(409);
  expect(directories()).toEqual([]);
});

test("fail answers an error and does nothing, as often as it was told", async () => {
  const running = await runCloud();
  const { cloud, directories } = running;
  const added = await post(`${cloud.url}/faults`, { match: "createVolume", kind: "fail", count: 2 });
  expect(added.status).toBe(201);

  for (const status of [500, 500, 201]) {
    expect((await post(`${cloud.url}/volumes`, volume("k1"))).status).toBe(status);
  }
  expect(directories()).toHaveLength(1);
  expect(outcomes(running)).toEqual(["failed", "failed", "created"]);
});

test("a fault can be meant for one volume's name, or for the other operation", async () => {
  const { cloud } = await runCloud();
  await post(`${cloud.url}/faults`, { match: "poison", kind: "fail", count: 1 });
  await post(`${cloud.url}/faults`, { match: "deleteVolume", kind: "fail", count: 1 });

  expect((await post(`${cloud.url}/volumes`, volume("k1", "good", "row-1"))).status).toBe(201);
  expect((await post(`${cloud.url}/volumes`, volume("k2", "a-poison-pill"))).status).toBe(500);
  expect((await fetch(`${cloud.url}/volumes?tag=row-1`, { method: "DELETE" })).status).toBe(500);
  expect((await fetch(`${cloud.url}/volumes?tag=row-1`, { method: "DELETE" })).status).toBe(204);
});

test("killCaller does the work, kills the sandbox that asked and leaves it without an answer", async () => {
  const running = await runCloud();
  const { cloud, killed, directories } = running;
  await post(`${cloud.url}/faults`, { match: "createVolume", kind: "killCaller", count: 1 });

  await expect(post(`${cloud.url}/as/worker-volumes-3/volumes`, volume("k1"))).rejects.toThrow();
  expect(killed).toEqual(["worker-volumes-3"]);
  expect(directories()).toHaveLength(1);

  expect((await post(`${cloud.url}/as/worker-volumes-4/volumes`, volume("k1"))).status).toBe(200);
  expect(killed).toHaveLength(1);
  expect(outcomes(running)).toEqual(["killed", "existing"]);
});

test("killCaller on a delete has deleted", async () => {
  const running = await runCloud();
  const { cloud, killed, directories } = running;
  await post(`${cloud.url}/volumes`, volume("k1", "a", "row-1"));
  await post(`${cloud.url}/faults`, { match: "deleteVolume", kind: "killCaller", count: 1 });

  await expect(fetch(`${cloud.url}/as/w1/volumes?tag=row-1`, { method: "DELETE" })).rejects.toThrow();
  expect([killed, directories()]).toEqual([["w1"], []]);
  expect(cloud.log.lines().at(-1)).toMatchObject({ op: "deleteVolume", key: "k1", name: "a", outcome: "killed" });
});

test.each([
  [{ match: "createVolume", kind: "explode", count: 1 }, "kind"],
  [{ match: "", kind: "fail", count: 1 }, "match"],
  [{ match: "a", kind: "delay", seconds: -1, count: 1 }, "seconds"],
  [{ match: "a", kind: "delay", seconds: 1, count: 0 }, "count"],
])("a bad fault is refused with the field: %j", async (fault, field) => {
  const { cloud } = await runCloud();
  const response = await post(`${cloud.url}/faults`, fault);
  expect(response.status).toBe(400);
  expect(((await response.json()) as { message: string }).message).toContain(field);
});

test("faults can be listed and cleared, and the log is served", async () => {
  const { cloud } = await runCloud();
  await post(`${cloud.url}/faults`, { kind: "fail", count: 3 });
  expect(await (await fetch(`${cloud.url}/faults`)).json()).toEqual([
    { match: null, kind: "fail", seconds: 0, count: 3 },
  ]);
  await fetch(`${cloud.url}/faults`, { method: "DELETE" });
  expect((await post(`${cloud.url}/volumes`, volume("k1"))).status).toBe(201);
  expect(await (await fetch(`${cloud.url}/log`)).json()).toEqual(cloud.log.lines());
});

test("stopping does not wait for a slow operation, and the operation is not done", async () => {
  const running = await runCloud();
  running.cloud.faults.add({ match: null, kind: "delay", seconds: 3600, count: 1 });
  const call = post(`${running.cloud.url}/volumes`, volume("k1"));
  await until(() => running.cloud.faults.list().length === 0, { what: "the create to have begun" });

  const [{ directories }] = await Promise.all([running.restart(), expect(call).rejects.toThrow()]);
  expect(directories()).toEqual([]);
});
