import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { createLocalCloud } from "../../../functions/cloud/local.ts";
import { startCloud } from "../../../infra/local/cloud/index.ts";
import { processStart } from "../../../infra/local/process-table.ts";
import { until } from "../../support/until.ts";
import { runCloud } from "./running.ts";

const { signal } = new AbortController();
const instance = { key: "i1", tag: "row-1", name: "runner" };

function clientOf(url: string) {
  const client = createLocalCloud(url);
  const run = async (instanceId: string, command: readonly string[], key = "c1", volumes: object[] = []) =>
    (await client.runCommand({ key, instanceId, command, volumes: volumes as [] }, { signal })).id;
  const ended = (id: string) =>
    until(
      async () => {
        const state = await client.commandState(id, { signal });
        return state.state !== "running" && state;
      },
      { what: `the end of ${id}` },
    );
  return {
    client,
    run,
    ended,
    start: async (request = instance) => (await client.createInstance(request, { signal })).id,
    output: async (id: string, from = 0) => client.readOutput(id, from, { signal }),
    says: (id: string, text: string) =>
      until(async () => (await client.readOutput(id, 0, { signal })).text.includes(text), { what: `"${text}"` }),
    async shell(instanceId: string, script: string, key: string, volumes: object[] = []) {
      const id = await run(instanceId, ["sh", "-c", script], key, volumes);
      const state = await ended(id);
      return { state, text: (await client.readOutput(id, 0, { signal })).text };
    },
  };
}

const gone = (pid: number) => until(() => processStart(pid) === undefined, { what: `the end of process ${pid}` });
const agentOf = (dir: string, id: string) =>
  (JSON.parse(readFileSync(join(dir, "instances", id, "agent.json"), "utf8")) as { pid: number }).pid;
const pidsIn = (text: string) => text.trim().split(/\s+/).map(Number);
/** A command with a process of its group behind it, both deaf to SIGTERM; says their pids. */
const DEAF = ["sh", "-c", "trap '' TERM; sleep 1000 & echo $$ $!; while :; do wait; done"];

test("20 creates with one key at once make one instance, which runs; deleting is final for the tag", async () => {
  const { cloud } = await runCloud();
  const { client, start } = clientOf(cloud.url);
  const ids = new Set(await Promise.all(Array.from({ length: 20 }, () => start())));
  const [id = ""] = ids;
  expect(ids.size).toBe(1);
  expect(await client.findInstances("row-1", { signal })).toEqual([id]);
  expect(cloud.log.lines().filter(({ outcome }) => outcome === "created")).toHaveLength(1);
  await until(async () => (await client.instanceState(id, { signal })) === "running", { what: "the instance to run" });

  await client.deleteInstance({ tag: "row-1", name: "runner" }, { signal });
  await client.deleteInstance({ tag: "row-1", name: "runner" }, { signal });
  expect(await client.instanceState(id, { signal })).toBe("gone");
  expect(await client.findInstances("row-1", { signal })).toEqual([]);
  await expect(start()).rejects.toMatchObject({ code: "CLOUD_REFUSED", details: { code: "TAG_CLOSED" } });
});

test("20 calls with one key run a command once, and so does one after a restart", async () => {
  const running = await runCloud();
  const { start, run, ended } = clientOf(running.cloud.url);
  const id = await start();
  const command = ["sh", "-c", "echo ran"];
  const ids = new Set(await Promise.all(Array.from({ length: 20 }, () => run(id, command))));
  const [first = ""] = ids;
  expect(ids.size).toBe(1);
  await ended(first);

  const again = clientOf((await running.restart()).cloud.url);
  expect(await again.run(id, command)).toBe(first);
  expect(await again.output(first)).toEqual({ text: "ran\n", next: 4 });
  expect(await again.client.commandState(first, { signal })).toEqual({ state: "exited", exitCode: 0 });
  expect(await again.client.instanceState(id, { signal })).toBe("gone");
  await expect(again.run(id, command, "another")).rejects.toMatchObject({ details: { code: "INSTANCE_GONE" } });
});

test("exit codes, a program that does not exist, a signal, no shell, and a small environment", async () => {
  const { cloud } = await runCloud();
  const { start, run, ended, output, shell } = clientOf(cloud.url);
  const id = await start();
  expect(await shell(id, "echo out; echo err >&2; exit 3", "a")).toEqual({
    state: { state: "exited", exitCode: 3 },
    text: "out\nerr\n",
  });
  expect((await shell(id, "kill -KILL $$", "b")).state).toEqual({ state: "exited", exitCode: 137 });

  const missing = await run(id, ["no-such-program"], "c");
  expect(await ended(missing)).toEqual({ state: "exited", exitCode: 127 });
  expect((await output(missing)).text).toContain("no-such-program ENOENT");

  const literal = await run(id, ["echo", "$HOME; ls *"], "d");
  await ended(literal);
  expect((await output(literal)).text).toBe("$HOME; ls *\n");

  const names = await run(id, ["env"], "e");
  await ended(names);
  const env = (await output(names)).text.split("\n").map((line) => line.split("=")[0]);
  expect(env.filter(Boolean).sort()).toEqual(["HOME", "MILLRACE_INSTANCE", "PATH"]);
});

test("output is read in parts of 64 KiB at most, and no character is split while more is to come", async () => {
  const { cloud } = await runCloud();
  const { start, run, ended, output, says } = clientOf(cloud.url);
  const id = await start();
  const text = `a${"€".repeat(50_000)}`;
  const long = await run(id, [process.execPath, "-e", `process.stdout.write("a" + "€".repeat(50000))`]);
  await ended(long);
  let read = "";
  for (let from = 0, next = -1; next !== from; ) {
    if (next >= 0) from = next;
    const part = await output(long, from);
    expect(Buffer.byteLength(part.text)).toBeLessThanOrEqual(65_536);
    read += part.text;
    next = part.next;
  }
  expect(read).toBe(text);

  const half = await run(id, ["sh", "-c", "printf 'x\\342\\202'; while [ ! -e go ]; do sleep 0.02; done"], "c2");
  await says(half, "x");
  await until(() => readFileSync(join(cloud.dir, "commands", half, "output")).length === 3, { what: "the half" });
  expect(await output(half)).toEqual({ text: "x", next: 1 });
  await ended(await run(id, ["touch", "go"], "c3"));
  await ended(half);
  expect(await output(half)).toEqual({ text: "x\uFFFD", next: 3 });
});

test("a command that ignores SIGTERM is killed with its group after the grace, however often that is asked", async () => {
  const { cloud } = await runCloud();
  const { client, start, run, ended, output, says } = clientOf(cloud.url);
  const id = await start();
  const deaf = await run(id, DEAF);
  await says(deaf, "\n");
  for (const grace of [3600, 0.1, 3600]) await client.stopCommand(deaf, grace, { signal });
  expect(await ended(deaf)).toEqual({ state: "exited", exitCode: 137 });
  for (const pid of pidsIn((await output(deaf)).text)) await gone(pid);
  await client.stopCommand(deaf, 0, { signal });

  const polite = await run(id, ["sh", "-c", "trap 'exit 5' TERM; echo up; while :; do sleep 0.02; done"], "c2");
  await says(polite, "up");
  await client.stopCommand(polite, 3600, { signal });
  expect(await ended(polite)).toEqual({ state: "exited", exitCode: 5 });
  expect(cloud.log.lines().at(-1)).toMatchObject({ op: "stopCommand", key: "c2", name: "runner", outcome: "stopping" });
});

test("a volume is attached to one instance at a time, and what is written to it moves with it", async () => {
  const { cloud } = await runCloud();
  const { client, start, shell, run } = clientOf(cloud.url);
  const [a, b] = [await start(), await start({ key: "i2", tag: "row-2", name: "other" })];
  const volume = { key: "v1", tag: "vol-row", name: "data", sizeGb: 1 };
  const { id: volumeId } = await client.createVolume(volume, { signal });
  const seen = [{ id: volumeId, name: "disk" }];
  const at = (instanceId: string) => ({ volumeId, instanceId });
  const inUse = { code: "CLOUD_REFUSED", details: { status: 409, code: "VOLUME_IN_USE" } };

  await expect(run(a, ["true"], "c0", seen)).rejects.toMatchObject({ details: { code: "VOLUME_NOT_ATTACHED" } });
  await client.attachVolume(at(a), { signal });
  await client.attachVolume(at(a), { signal });
  await expect(client.attachVolume(at(b), { signal })).rejects.toMatchObject(inUse);
  await expect(client.deleteVolume({ tag: "vol-row", name: "data" }, { signal })).rejects.toMatchObject(inUse);
  expect((await client.createVolume(volume, { signal })).id).toBe(volumeId); // the tag is not closed

  await shell(a, "echo kept > disk/file", "c1", seen);
  await client.detachVolume(at(b), { signal });
  await expect(client.attachVolume(at(b), { signal })).rejects.toMatchObject(inUse);
  await client.detachVolume(at(a), { signal });
  await client.detachVolume(at(a), { signal });
  expect((await shell(a, "ls", "c2")).text).toBe("");

  await client.attachVolume(at(b), { signal });
  expect((await shell(b, "cat disk/file", "c3", seen)).text).toBe("kept\n");
  await client.deleteInstance({ tag: "row-2", name: "other" }, { signal });
  await client.detachVolume(at(b), { signal });
  await client.attachVolume(at(a), { signal });
  expect((await shell(a, "cat disk/file", "c4", seen)).text).toBe("kept\n");
  await client.detachVolume(at(a), { signal });
  await client.deleteVolume({ tag: "vol-row", name: "data" }, { signal });
  expect(await client.findVolumes("vol-row", { signal })).toEqual([]);
});

test.each(["..", ".", "a/b", ""])("a volume cannot be named %j in the working directory", async (name) => {
  const { cloud } = await runCloud();
  const { start, run } = clientOf(cloud.url);
  await expect(run(await start(), ["true"], "c1", [{ id: "v", name }])).rejects.toMatchObject({
    details: { status: 400, code: "BAD_REQUEST" },
  });
});

test("deleting an instance ends its processes, those that ignore SIGTERM too, and removes its folder", async () => {
  const { cloud } = await runCloud();
  const { client, start, run, output, says } = clientOf(cloud.url);
  const id = await start();
  const deaf = await run(id, DEAF);
  await says(deaf, "\n");
  const pids = [...pidsIn((await output(deaf)).text), agentOf(cloud.dir, id)];
  await client.deleteInstance({ tag: "row-1", name: "runner" }, { signal });
  for (const pid of pids) await gone(pid);
  expect(existsSync(join(cloud.dir, "instances", id))).toBe(false);
  expect(await client.commandState(deaf, { signal })).toMatchObject({ state: "lost" });
  expect(await output(deaf)).toEqual({ text: "", next: 0 });
});

test("an instance whose agent is killed is gone, its commands end and are lost, their output stays", async () => {
  const { cloud } = await runCloud();
  const { client, start, run, ended, output, says } = clientOf(cloud.url);
  const id = await start();
  const deaf = await run(id, DEAF);
  await says(deaf, "\n");
  const { text } = await output(deaf);
  process.kill(agentOf(cloud.dir, id), "SIGKILL");
  expect(await ended(deaf)).toMatchObject({ state: "lost", reason: expect.stringContaining("agent") });
  expect(await client.instanceState(id, { signal })).toBe("gone");
  for (const pid of pidsIn(text)) await gone(pid);
  expect((await output(deaf)).text).toBe(text);
  expect(await start()).toBe(id);
});

test.each([
  ["the service alone", false],
  ["the service and the agent", true],
])("after a SIGKILL of %s nothing runs on, and a restart says what was lost", async (_, agentToo) => {
  const dir = mkdtempSync(join(tmpdir(), "millrace-cloud-"));
  const script = fileURLToPath(new URL("serve-cloud.ts", import.meta.url));
  const service = spawn(process.execPath, [script, dir], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = once(service, "exit");
  const [url] = (await once(service.stdout, "data")) as [Buffer];
  const { start, run, output, says } = clientOf(url.toString().trim());
  const id = await start();
  const deaf = await run(id, DEAF);
  await says(deaf, "\n");
  const { text } = await output(deaf);
  const agent = agentOf(dir, id);
  if (agentToo) {
    process.kill(agent, "SIGSTOP"); // it notices nothing; the next start has to end it
    service.kill("SIGKILL");
  } else {
    service.kill("SIGKILL");
    for (const pid of [...pidsIn(text), agent]) await gone(pid);
  }
  await exited;

  const cloud = await startCloud({ dir, port: 0, killCaller() {} });
  try {
    for (const pid of [...pidsIn(text), agent]) await gone(pid);
    const after = clientOf(cloud.url);
    expect(await after.client.instanceState(id, { signal })).toBe("gone");
    expect(await after.client.commandState(deaf, { signal })).toMatchObject({ state: "lost" });
    expect((await after.output(deaf)).text).toBe(text);
    expect(await after.run(id, DEAF)).toBe(deaf);
  } finally {
    await cloud.close();
    rmSync(dir, { recursive: true, force: true });
  }
});

test("a normal stop ends every agent and command, which are lost", async () => {
  const running = await runCloud();
  const { start, run, output, says } = clientOf(running.cloud.url);
  const id = await start();
  const deaf = await run(id, DEAF);
  await says(deaf, "\n");
  const pids = [...pidsIn((await output(deaf)).text), agentOf(running.cloud.dir, id)];
  const { cloud } = await running.restart();
  for (const pid of pids) expect(processStart(pid)).toBeUndefined();
  expect(await clientOf(cloud.url).client.commandState(deaf, { signal })).toMatchObject({ state: "lost" });
});

test("faults hit the operations of instances and commands, by operation or by name", async () => {
  const { cloud, killed } = await runCloud();
  const { client, run } = clientOf(`${cloud.url}/as/worker-1`);
  cloud.faults.add({ match: "runner", kind: "fail", seconds: 0, count: 1 });
  await expect(client.createInstance(instance, { signal })).rejects.toMatchObject({ code: "CLOUD_FAILED" });
  const { id } = await client.createInstance(instance, { signal });

  cloud.faults.add({ match: "runCommand", kind: "killCaller", seconds: 0, count: 1 });
  await expect(run(id, ["true"])).rejects.toMatchObject({ code: "CLOUD_UNREACHABLE" });
  expect(killed).toEqual(["worker-1"]);
  await run(id, ["true"]);
  expect(cloud.log.lines().map(({ op, outcome }) => `${op} ${outcome}`)).toEqual([
    "createInstance failed",
    "createInstance created",
    "runCommand killed",
    "runCommand existing",
  ]);
});
