import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { cloudFromEnvironment } from "../../../functions/cloud/choose.ts";
import type { Cloud } from "../../../functions/cloud/cloud.ts";
import { CLOUD_ERRORS, CloudError } from "../../../functions/cloud/errors.ts";
import { until } from "../../support/until.ts";
import { runCloud } from "./running.ts";

const signal = new AbortController().signal;
const request = { key: "k1", tag: "row-1", name: "data", sizeGb: 10 };
const connect = (url: string): Cloud => cloudFromEnvironment({ CLOUD: "local", MILLRACE_CLOUD_URL: url });

test("creating twice with one key answers the same id; deleting the tag leaves nothing, and may be repeated", async () => {
  const { cloud, directories } = await runCloud();
  const client = connect(`${cloud.url}/as/worker-1`);
  const first = await client.createVolume(request, { signal });
  expect(await client.createVolume(request, { signal })).toEqual(first);
  expect(directories()).toEqual([first.id]);

  await client.deleteVolume({ tag: "row-1", name: "data" }, { signal });
  await client.deleteVolume({ tag: "row-1", name: "data" }, { signal });
  expect(directories()).toEqual([]);
});

test("a create that arrives after the deletion is refused", async () => {
  const { cloud } = await runCloud();
  const client = connect(cloud.url);
  await client.deleteVolume({ tag: "row-1", name: "data" }, { signal });
  await expect(client.createVolume(request, { signal })).rejects.toMatchObject({
    code: "CLOUD_REFUSED",
    message: expect.stringContaining("TAG_CLOSED"),
  });
});

test("a failure of the provider, and no answer at all, are told apart", async () => {
  const { cloud, killed } = await runCloud();
  const client = connect(`${cloud.url}/as/worker-1`);
  cloud.faults.add({ match: null, kind: "fail", seconds: 0, count: 1 });
  await expect(client.createVolume(request, { signal })).rejects.toMatchObject({ code: "CLOUD_FAILED" });

  cloud.faults.add({ match: null, kind: "killCaller", seconds: 0, count: 1 });
  await expect(client.createVolume(request, { signal })).rejects.toMatchObject({ code: "CLOUD_UNREACHABLE" });
  expect(killed).toEqual(["worker-1"]);

  await cloud.close();
  await expect(client.deleteVolume({ tag: "row-1", name: "data" }, { signal })).rejects.toMatchObject({
    code: "CLOUD_UNREACHABLE",
    message: expect.stringContaining("ECONNREFUSED"),
  });
});

test("an aborted signal ends the wait with its own reason", async () => {
  const { cloud } = await runCloud();
  cloud.faults.add({ match: null, kind: "delay", seconds: 3600, count: 1 });
  const lost = new AbortController();
  const call = connect(cloud.url).createVolume(request, { signal: lost.signal });
  await until(() => cloud.faults.list().length === 0, { what: "the create to have begun" });
  const reason = new Error("the lock is gone");
  lost.abort(reason);
  await expect(call).rejects.toBe(reason);
});

test("something else behind the URL is not taken for the cloud", async () => {
  const server = createServer((_, response) => response.end("<html>hello</html>"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  await expect(client.createVolume(request, { signal })).rejects.toMatchObject({ code: "CLOUD_ANSWER" });
  server.close();
  server.closeAllConnections();
});

test.each([
  [{ CLOUD: "ec2" }, "CLOUD_SETTING", "EC2_AVAILABILITY_ZONE"],
  [{}, "CLOUD_SETTING", "CLOUD is not set"],
  [{ CLOUD: "azure" }, "CLOUD_SETTING", '"azure"'],
  [{ CLOUD: "local" }, "CLOUD_SETTING", "MILLRACE_CLOUD_URL"],
  [{ CLOUD: "local", MILLRACE_CLOUD_URL: "here" }, "CLOUD_SETTING", '"here"'],
])("the environment %j is an error at start: %s", (env, code, words) => {
  expect(() => cloudFromEnvironment(env)).toThrow(expect.objectContaining({ code }));
  expect(() => cloudFromEnvironment(env)).toThrow(words);
});

test("every text of the catalogue is its own, and says what to do", () => {
  const texts = Object.values(CLOUD_ERRORS);
  expect(new Set(texts).size).toBe(texts.length);
  for (const text of texts) expect(text).toMatch(/Set|See|Mend|may be repeated/i);
  expect(new CloudError("CLOUD_SETTING", { name: "CLOUD" }).name).toBe("CloudError");
});
