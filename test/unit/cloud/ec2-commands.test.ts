import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Cloud } from "../../../functions/cloud/cloud.ts";
import { until } from "../../support/until.ts";
import { runAgent } from "./agent.ts";
import { instancesAre, runAws, ssmFailure } from "./aws.ts";

const { signal } = new AbortController();
const request = (command: readonly string[], key = "key-1") => ({ key, instanceId: "i-0a", command, volumes: [] });
const sh = (script: string, key?: string) => request(["sh", "-c", script], key);
const id = "i-0a/key-1";

/** The state of a command that ends. */
const ended = (cloud: Cloud, of = id) =>
  until(
    async () => {
      const state = await cloud.commandState(of, { signal });
      return state.state === "running" ? undefined : state;
    },
    { what: `${of} to end` },
  );

async function outputOf(cloud: Cloud): Promise<string> {
  let text = "";
  for (let from = 0; ; ) {
    const part = await cloud.readOutput(id, from, { signal });
    if (part.next === from) return text;
    text += part.text;
    from = part.next;
  }
}

const gone = { DescribeInstances: [instancesAre({ id: "i-0a", state: "terminated" })] };
const refused = { SendCommand: [ssmFailure(400, "InvalidInstanceId")] };

// The scripts are for Linux, as are the instances.
describe.runIf(process.platform === "linux")("a command on an instance", () => {
  test("gets its arguments as they are, and its output is read", async () => {
    const { cloud } = await runAgent();
    const odd = [
      "it's",
      "two\nlines\n",
      "$HOME `id` $(id)",
      "{{ssm:secret}}",
      "日本 ü",
      "",
      "-n",
      "*",
      '"',
      "\\",
      "a\tb",
    ];
    const command = ["node", "-e", "console.log(JSON.stringify(process.argv.slice(1)))", "--", ...odd];
    expect(await cloud.runCommand(request(command), { signal })).toEqual({ id });
    expect(await ended(cloud)).toEqual({ state: "exited", exitCode: 0 });
    expect(JSON.parse(await outputOf(cloud))).toEqual(odd);
  });

  test("is sent as a script that says nothing of its arguments to Systems Manager", async () => {
    const { cloud, sent } = await runAgent();
    await cloud.runCommand(request(["echo", "{{ssm:secret}}"]), { signal });
    expect(sent("SendCommand")).toEqual([
      {
        Comment: "millrace runCommand",
        DocumentName: "AWS-RunShellScript",
        InstanceIds: ["i-0a"],
        Parameters: { commands: [expect.any(String)], executionTimeout: ["60"] },
        TimeoutSeconds: 30,
      },
    ]);
    expect(JSON.stringify(sent("SendCommand"))).not.toContain("{{");
    const { CommandId, ...asked } = sent("GetCommandInvocation")[0]!;
    expect(asked).toEqual({ InstanceId: "i-0a" });
    expect(CommandId).toMatch(/^[0-9a-f-]{36}$/);
  });

  test("runs once for its key, however often and at the same time it is asked for", async () => {
    const { cloud, root } = await runAgent();
    const runs = join(root, "../runs");
    const calls = Array.from({ length: 6 }, () => cloud.runCommand(sh(`echo ran >> ${runs}`), { signal }));
    expect(new Set((await Promise.all(calls)).map((each) => each.id))).toEqual(new Set([id]));
    await ended(cloud);
    await cloud.runCommand(sh(`echo ran >> ${runs}`), { signal });
    await cloud.runCommand(sh(`echo other >> ${runs}`, "key-2"), { signal });
    await ended(cloud, "i-0a/key-2");
    expect(readFileSync(runs, "utf8")).toBe("ran\nother\n");
  });

  test.each([
    ["exit 3", 3],
    ["kill -s KILL $$", 137],
    ["exec /no/such/program", 127],
  ])("%s is exit code %i", async (script, exitCode) => {
    const { cloud } = await runAgent();
    await cloud.runCommand(sh(script), { signal });
    expect(await ended(cloud)).toEqual({ state: "exited", exitCode });
  });

  test("a program that does not exist is exit code 127, and the output says why", async () => {
    const { cloud } = await runAgent();
    await cloud.runCommand(request(["no-such-program"]), { signal });
    expect(await ended(cloud)).toEqual({ state: "exited", exitCode: 127 });
    expect(await outputOf(cloud)).toContain("no-such-program");
  });

  test("long output comes in parts, none of which splits a character", async () => {
    const { cloud, sent } = await runAgent();
    // three bytes each: 16,000 is no multiple
    const text = "€".repeat(12_000);
    await cloud.runCommand(request(["node", "-e", `process.stdout.write("${"€"}".repeat(12000))`]), { signal });
    await ended(cloud);
    const before = sent("SendCommand").length;
    expect(await outputOf(cloud)).toBe(text);
    expect(sent("SendCommand").length - before).toBe(4);
    expect(await cloud.readOutput(id, 15_999, { signal })).toMatchObject({ next: 31_998 });
    expect(await cloud.readOutput(id, 36_000, { signal })).toEqual({ text: "", next: 36_000 });
  });

  test("half a character waits for its rest while the command runs, and no longer", async () => {
    const { cloud, root } = await runAgent();
    const go = join(root, "../go");
    const script = `printf 'a\\342\\202'; until [ -e ${go} ]; do sleep 0.05; done; printf '\\254\\342'; echo done >&2`;
    await cloud.runCommand(sh(script.replace("echo done >&2", ":")), { signal });
    const first = () => cloud.readOutput(id, 0, { signal });
    await until(async () => (await first()).next > 0, { what: "output" });
    expect(await first()).toEqual({ text: "a", next: 1 });
    expect(await cloud.readOutput(id, 1, { signal })).toEqual({ text: "", next: 1 });
    writeFileSync(go, "");
    await ended(cloud);
    expect(await cloud.readOutput(id, 1, { signal })).toEqual({ text: "€\ufffd", next: 5 });
  });

  test("standard output and error are read together, in order", async () => {
    const { cloud } = await runAgent();
    await cloud.runCommand(sh("echo one; echo two >&2; echo three"), { signal });
    await ended(cloud);
    expect(await outputOf(cloud)).toBe("one\ntwo\nthree\n");
  });

  test("stop asks it to end, and it may say how", async () => {
    const { cloud } = await runAgent();
    await cloud.runCommand(sh("trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done"), { signal });
    await until(async () => (await outputOf(cloud)) === "up\n", { what: "the command to be up" });
    expect(await cloud.commandState(id, { signal })).toEqual({ state: "running" });
    await cloud.stopCommand(id, 5, { signal });
    expect(await ended(cloud)).toEqual({ state: "exited", exitCode: 7 });
    expect(await outputOf(cloud)).toMatch(/bye\n$/);
    await cloud.stopCommand(id, 0, { signal });
  });

  test("stop ends it after the grace with all that it has started", async () => {
    const { cloud, root } = await runAgent();
    const child = join(root, "../child");
    const script = `trap '' TERM; (trap '' TERM; exec sleep 1000) & echo $! > ${child}; echo up; wait; wait`;
    await cloud.runCommand(sh(script), { signal });
    await until(async () => (await outputOf(cloud)) === "up\n", { what: "the command to be up" });
    await cloud.stopCommand(id, 0, { signal });
    expect(await ended(cloud)).toEqual({ state: "exited", exitCode: 137 });
    const pid = Number(readFileSync(child, "utf8"));
    await until(() => !isAlive(pid), { what: "its child to be gone" });
  });

  test("what it leaves running ends with it", async () => {
    const { cloud, root } = await runAgent();
    const child = join(root, "../child");
    await cloud.runCommand(sh(`sleep 1000 & echo $! > ${child}`), { signal });
    expect(await ended(cloud)).toEqual({ state: "exited", exitCode: 0 });
    await until(() => !isAlive(Number(readFileSync(child, "utf8"))), { what: "its child to be gone" });
  });

  test("is lost when its supervisor was killed, when the machine was restarted, and when its folder is gone", async () => {
    const { cloud, root } = await runAgent();
    await cloud.runCommand(sh("sleep 1000"), { signal });
    const folder = join(root, "key-1");
    await until(() => existsSync(join(folder, "group")), { what: "the command's group" });
    const supervisor = readFileSync(join(folder, "supervisor"), "utf8");
    const [pid = "", start = "", boot = ""] = supervisor.trim().split(" ");

    writeFileSync(join(folder, "supervisor"), `${pid} ${start} ${boot.replace(/^./, "x")}\n`);
    const lost = { state: "lost", reason: expect.stringContaining("restarted") };
    expect(await cloud.commandState(id, { signal })).toEqual(lost);
    writeFileSync(join(folder, "supervisor"), `${pid} ${Number(start) - 1} ${boot}\n`);
    expect(await cloud.commandState(id, { signal })).toEqual(lost);
    writeFileSync(join(folder, "supervisor"), supervisor);
    expect(await cloud.commandState(id, { signal })).toEqual({ state: "running" });

    process.kill(Number(pid), "SIGKILL");
    process.kill(-Number(readFileSync(join(folder, "group"), "utf8")), "SIGKILL");
    expect(await ended(cloud)).toEqual(lost);

    rmSync(folder, { recursive: true });
    expect(await cloud.commandState(id, { signal })).toEqual({
      state: "lost",
      reason: "i-0a does not know the command",
    });
    expect(await cloud.readOutput(id, 5, { signal })).toEqual({ text: "", next: 5 });
    await cloud.stopCommand(id, 0, { signal });
  });

  test("a script that fails may be repeated, and says why", async () => {
    const { cloud, root } = await runAgent();
    writeFileSync(root, "a file where the folder should be");
    await expect(cloud.runCommand(sh("true"), { signal })).rejects.toMatchObject({
      code: "CLOUD_FAILED",
      details: { code: "Failed", reason: expect.stringContaining("mkdir") },
    });
  });
});

describe("an instance that cannot be reached", () => {
  test("because it is gone: the command is lost, has no output and needs no stop; none can be started", async () => {
    const { cloud } = await runAws({ ...gone, ...refused });
    expect(await cloud.commandState(id, { signal })).toEqual({ state: "lost", reason: "i-0a is gone" });
    expect(await cloud.readOutput(id, 7, { signal })).toEqual({ text: "", next: 7 });
    await cloud.stopCommand(id, 0, { signal });
    await expect(cloud.runCommand(sh("true"), { signal })).rejects.toMatchObject({
      code: "CLOUD_REFUSED",
      details: { code: "INSTANCE_GONE" },
    });
  });

  test("because its agent is away: the call may be repeated", async () => {
    const here = {
      DescribeInstances: [instancesAre({ id: "i-0a", state: "running" })],
      DescribeInstanceInformation: [{ body: { InstanceInformationList: [{ PingStatus: "ConnectionLost" }] } }],
    };
    const { cloud } = await runAws({ ...here, ...refused });
    await expect(cloud.commandState(id, { signal })).rejects.toMatchObject({ code: "CLOUD_FAILED" });

    const sent = { SendCommand: [{ body: { Command: { CommandId: "c".repeat(36) } } }] };
    const timedOut = [{ body: { Status: "TimedOut", StatusDetails: "Delivery Timed Out" } }];
    const late = await runAws({ ...here, ...sent, GetCommandInvocation: timedOut });
    await expect(late.cloud.commandState(id, { signal })).rejects.toMatchObject({
      code: "CLOUD_FAILED",
      details: { code: "Delivery Timed Out" },
    });
    const dead = await runAws({ ...gone, ...sent, GetCommandInvocation: timedOut });
    expect(await dead.cloud.commandState(id, { signal })).toMatchObject({ state: "lost" });
  });

  test("throttling of Systems Manager may be repeated", async () => {
    const { cloud } = await runAws({
      SendCommand: [ssmFailure(400, "ThrottlingException")],
      DescribeInstances: [instancesAre({ id: "i-0a", state: "pending" })],
    });
    await expect(cloud.commandState(id, { signal })).rejects.toMatchObject({ code: "CLOUD_FAILED" });
  });
});

describe("is refused before anything is sent", () => {
  test.each([
    ["no program", { command: [] }, "BAD_COMMAND"],
    ["an empty program", { command: ["", "a"] }, "BAD_COMMAND"],
    ["a zero byte", { command: ["echo", "a\0b"] }, "BAD_COMMAND"],
    ["no instance", { instanceId: "i-0a/../x" }, "BAD_ID"],
    ["no volume", { volumes: [{ id: "data", name: "data" }] }, "BAD_VOLUME"],
    ...["", ".", "..", "a/b", "a\0b"].map((name) => [
      `the name ${JSON.stringify(name)}`,
      { volumes: [{ id: "vol-0a", name }] },
      "BAD_VOLUME",
    ]),
  ] as [string, object, string][])("%s", async (_, change, code) => {
    const aws = await runAws({});
    const call = aws.cloud.runCommand({ ...sh("true"), ...change }, { signal });
    await expect(call).rejects.toMatchObject({ code: "CLOUD_REFUSED", details: { code } });
    expect(aws.requests).toEqual([]);
  });

  test.each(["", "i-0a", "i-0a/", "i-0a/..", "i-0a/a/b", "x/key"])('the id "%s"', async (bad) => {
    const aws = await runAws({});
    await expect(aws.cloud.commandState(bad, { signal })).rejects.toMatchObject({ details: { code: "BAD_ID" } });
    expect(aws.requests).toEqual([]);
  });
});

function isAlive(pid: number): boolean {
  try {
    // a zombie has ended, whether or not anybody has asked about it
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
