import { afterEach, expect, test } from "vitest";
import type { FleetJson, JobJson, OutputJson } from "../../../functions/api/json.ts";
import { createLocalCloud } from "../../../functions/cloud/local.ts";
import { KEPT_BYTES, outputTail } from "../../../functions/pipelines/output-tail.ts";
import { until } from "../../support/until.ts";
import { runCloud } from "../cloud/running.ts";
import { useApi } from "./running-api.ts";

const api = useApi();
const NOWHERE = "http://127.0.0.1:1";
const { signal } = new AbortController();

afterEach(() => {
  api().clouds.url = NOWHERE;
});

async function call<T>(method: string, path: string, body?: unknown) {
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await api().app.request(path, { method, ...content });
  return { status: response.status, json: (await response.json()) as T };
}
const output = async (id: string, from: number) =>
  (await call<OutputJson>("GET", `/jobs/${id}/output?from=${from}`)).json;
let fleets = 0;

/** A job whose command has written 350,000 bytes at a cloud; the pipelines' part is played by SQL. */
async function longJob() {
  const { cloud } = await runCloud();
  api().clouds.url = cloud.url;
  const client = createLocalCloud(cloud.url);
  const { id: instanceId } = await client.createInstance({ key: "i", tag: "i", name: "i" }, { signal });
  await until(async () => (await client.instanceState(instanceId, { signal })) === "running", { what: "the instance" });
  const command = ["sh", "-c", "seq 100000 149999"];
  const { id: commandId } = await client.runCommand({ key: "c", instanceId, command, volumes: [] }, { signal });
  await until(async () => (await client.commandState(commandId, { signal })).state === "exited", { what: "its end" });
  const fleet = await call<FleetJson>("POST", "/fleets", { name: `f${++fleets}`, nodes: 0 });
  const { json } = await call<JobJson>("POST", "/jobs", { fleetId: fleet.json.id, command });
  await api().sql("update jobs set status = 'running', command_id = $2 where id = $1", [json.id, commandId]);
  const whole = Array.from({ length: 50_000 }, (_, n) => `${100_000 + n}\n`).join("");
  const end = async () => {
    const tail = await outputTail(client, commandId, signal);
    await api().sql("update jobs set status = 'done', output = $2, output_from = $3 where id = $1", [
      json.id,
      tail.text,
      tail.from,
    ]);
  };
  /** All from a byte on, as a follower reads it. */
  async function follow(from: number) {
    let text = "";
    for (let at = from; ; ) {
      const part = await output(json.id, at);
      expect(part.next - at).toBe(Buffer.byteLength(part.text) + (part.skipped ?? 0));
      text += part.text;
      at = part.next;
      if (part.ended || part.text === "") return { text, next: at, ended: part.ended };
    }
  }
  return { id: json.id, whole, end, follow };
}

test("who follows a long output across its job's end gets every byte once", async () => {
  const { id, whole, end, follow } = await longJob();
  const first = await output(id, 0);
  expect(first).toMatchObject({ ended: false });
  expect(first.next).toBeGreaterThan(0);
  const second = await output(id, first.next);
  await end();
  const rest = await follow(second.next);
  expect(first.text + second.text + rest.text === whole).toBe(true);
  expect(rest).toMatchObject({ next: whole.length, ended: true });
});

test("who has read all before the end gets nothing more, and the same place", async () => {
  const { id, whole, end, follow } = await longJob();
  expect(await follow(0)).toEqual({ text: whole, next: whole.length, ended: false });
  await end();
  api().clouds.url = NOWHERE;
  expect(await output(id, whole.length)).toEqual({ text: "", next: whole.length, ended: true });
  expect(await output(id, whole.length + 5)).toEqual({ text: "", next: whole.length + 5, ended: true });
  const within = whole.length - 700;
  expect(await output(id, within)).toEqual({ text: whole.slice(within), next: whole.length, ended: true });
});

test("what is no longer there is said to be skipped: at the beginning, and when the cloud has nothing any more", async () => {
  const { id, whole, end } = await longJob();
  await end();
  const kept = whole.slice(-KEPT_BYTES);
  const begin = whole.length - KEPT_BYTES;
  expect(await output(id, 0)).toEqual({ text: kept, next: whole.length, ended: true, skipped: begin });
  expect(await output(id, begin)).toEqual({ text: kept, next: whole.length, ended: true });
  const { cloud } = await runCloud();
  api().clouds.url = cloud.url;
  expect(await output(id, 1000)).toEqual({ text: kept, next: whole.length, ended: true, skipped: begin - 1000 });
});
