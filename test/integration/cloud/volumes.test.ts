import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openVolumes } from "../../../infra/local/cloud/volumes.ts";
import { post, runCloud, volume } from "./running.ts";

const idOf = async (response: Response) => ((await response.json()) as { id: string }).id;

test("a volume is a directory that says what it is", async () => {
  const { cloud, directories } = await runCloud();
  const response = await post(`${cloud.url}/volumes`, volume("k1", "data", "row-1"));

  expect(response.status).toBe(201);
  const id = await idOf(response);
  expect(directories()).toEqual([id]);
  const found = await (await fetch(`${cloud.url}/volumes/${id}`)).json();
  expect(found).toMatchObject({ id, key: "k1", tag: "row-1", name: "data", sizeGb: 10 });
  expect(cloud.log.lines()).toMatchObject([{ op: "createVolume", key: "k1", name: "data", outcome: "created" }]);
});

test("the same key finds the volume that it made, also after a restart", async () => {
  const running = await runCloud();
  const id = await idOf(await post(`${running.cloud.url}/volumes`, volume("k1")));

  const again = await post(`${running.cloud.url}/volumes`, volume("k1"));
  expect([again.status, await idOf(again)]).toEqual([200, id]);

  const { cloud, directories } = await running.restart();
  const afterRestart = await post(`${cloud.url}/volumes`, volume("k1"));
  expect([afterRestart.status, await idOf(afterRestart)]).toEqual([200, id]);
  expect(directories()).toEqual([id]);
  expect(await (await fetch(`${cloud.url}/volumes?key=k1`)).json()).toMatchObject([{ id }]);
  expect(cloud.log.lines().map(({ outcome }) => outcome)).toEqual(["created", "existing", "existing"]);
});

test("creates with one key at the same time make one volume", async () => {
  const { cloud, directories } = await runCloud();
  cloud.faults.add({ match: "createVolume", kind: "delay", seconds: 0.05, count: 5 });
  const responses = await Promise.all(Array.from({ length: 10 }, () => post(`${cloud.url}/volumes`, volume("k1"))));

  expect(new Set(await Promise.all(responses.map(idOf))).size).toBe(1);
  expect(responses.filter(({ status }) => status === 201)).toHaveLength(1);
  expect(directories()).toHaveLength(1);
});

test("different keys make different volumes, whatever the name", async () => {
  const { cloud, directories } = await runCloud();
  await post(`${cloud.url}/volumes`, volume("k1"));
  await post(`${cloud.url}/volumes`, volume("k2"));
  expect(directories()).toHaveLength(2);
});

test("deleting by id removes the directory and may be repeated", async () => {
  const { cloud, directories } = await runCloud();
  const id = await idOf(await post(`${cloud.url}/volumes`, volume("k1")));

  for (const outcome of ["deleted", "missing"]) {
    const response = await fetch(`${cloud.url}/volumes/${id}`, { method: "DELETE" });
    expect(response.status).toBe(204);
    expect(directories()).toEqual([]);
    expect(cloud.log.lines().at(-1)?.outcome).toBe(outcome);
  }
  expect((await fetch(`${cloud.url}/volumes/${id}`)).status).toBe(404);
});

test("deleting by tag removes every volume of the tag and no other", async () => {
  const { cloud, directories } = await runCloud();
  for (const key of ["k1", "k2", "k3"]) await post(`${cloud.url}/volumes`, volume(key, "a", "row-1"));
  const other = await idOf(await post(`${cloud.url}/volumes`, volume("k4", "b", "row-2")));

  expect((await fetch(`${cloud.url}/volumes?tag=row-1&name=a`, { method: "DELETE" })).status).toBe(204);
  expect(directories()).toEqual([other]);
  expect((await fetch(`${cloud.url}/volumes?tag=row-1&name=a`, { method: "DELETE" })).status).toBe(204);
  expect(cloud.log.lines().slice(-2)).toMatchObject([
    { op: "deleteVolume", name: "a", outcome: "deleted" },
    { op: "deleteVolume", key: null, name: "a", outcome: "missing" },
  ]);
});

test("deleting without a tag deletes nothing", async () => {
  const { cloud, directories } = await runCloud();
  await post(`${cloud.url}/volumes`, volume("k1"));
  expect((await fetch(`${cloud.url}/volumes`, { method: "DELETE" })).status).toBe(400);
  expect(directories()).toHaveLength(1);
});

test("a create that arrives after its tag was deleted makes nothing, also after a restart", async () => {
  const running = await runCloud();
  await fetch(`${running.cloud.url}/volumes?tag=row-1`, { method: "DELETE" });
  const { cloud, directories } = await running.restart();

  const late = await post(`${cloud.url}/volumes`, volume("k1", "a", "row-1"));
  expect([late.status, await late.json()]).toMatchObject([409, { code: "TAG_CLOSED" }]);
  expect(directories()).toEqual([]);
});

test.each([
  [{ tag: null, name: "a", sizeGb: 1 }, "key"],
  [{ key: "k", name: "", sizeGb: 1 }, "name"],
  [{ key: "k", name: "a", sizeGb: 0 }, "sizeGb"],
  [{ key: "k", name: "a", sizeGb: "10" }, "sizeGb"],
  [{ key: "k", tag: 7, name: "a", sizeGb: 1 }, "tag"],
  [[], "object"],
])("a bad body is refused with the field: %j", async (body, field) => {
  const { cloud, directories } = await runCloud();
  const response = await post(`${cloud.url}/volumes`, body);
  expect(response.status).toBe(400);
  expect(((await response.json()) as { message: string }).message).toContain(field);
  expect(directories()).toEqual([]);
});

test("an id cannot reach outside the folder of volumes", () => {
  const dir = mkdtempSync(join(tmpdir(), "millrace-cloud-"));
  mkdirSync(join(dir, "other"));
  writeFileSync(join(dir, "other", "volume.json"), "{}");
  const volumes = openVolumes(dir);
  expect(volumes.get("../other")).toBeUndefined();
  expect(volumes.remove("../other")).toBe(false);
  rmSync(dir, { recursive: true });
});
