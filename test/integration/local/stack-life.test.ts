import { existsSync, mkdtempSync, rmSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { ProcessTable, processStart } from "../../../infra/local/process-table.ts";
import { writeSmallAssembly } from "../../support/small-assembly.ts";
import { startLocalStack } from "../../support/stack.ts";
import { until } from "../../support/until.ts";

const small = writeSmallAssembly();
afterAll(() => small[Symbol.dispose]());
const start = (more: Parameters<typeof startLocalStack>[0] = {}) =>
  startLocalStack({ assembly: small.folder, ...more });

test("SIGTERM leaves no process, no local.json, and the data for the next start", async () => {
  const stateDir = mkdtempSync(join(tmpdir(), "millrace-stack-"));
  const first = await start({ stateDir });
  await first.sql("create table kept (id int)");
  const secret = first.local.secretArn;
  const started = new ProcessTable(join(stateDir, "processes.jsonl")).alive();
  expect(started.map(({ what }) => what)).toEqual(expect.arrayContaining(["postgres", "sandbox worker"]));
  await first.kill("SIGTERM");
  expect(started.filter((each) => processStart(each.pid) === each.start)).toEqual([]);
  expect(existsSync(join(stateDir, "local.json"))).toBe(false);

  await using second = await start({ stateDir });
  expect(second.local.secretArn).toBe(secret);
  expect(await second.sql("select count(*)::int as n from kept")).toEqual([{ n: 0 }]);
});

test("a second signal does not wait, and leaves no process either", async () => {
  const stack = await start();
  const started = new ProcessTable(join(stack.stateDir, "processes.jsonl")).alive();
  process.kill(stack.pid, "SIGTERM");
  await stack.kill("SIGINT");
  const left = () => started.filter((each) => processStart(each.pid) === each.start);
  await until(() => left().length === 0, { what: "the end of every process" });
  rmSync(stack.stateDir, { recursive: true });
});

test("after the runner was killed, the next start ends what it left behind", async () => {
  const first = await start();
  await first.sql("create table kept (id int)");
  const left = new ProcessTable(join(first.stateDir, "processes.jsonl")).alive();
  await first.kill("SIGKILL");
  const sandbox = left.find(({ what }) => what === "sandbox worker")!;
  expect(processStart(sandbox.pid)).toBe(sandbox.start);

  // What the killed one wrote must not be taken for the new one's.
  rmSync(join(first.stateDir, "local.json"));
  await using second = await start({ stateDir: first.stateDir });
  expect(left.filter((each) => processStart(each.pid) === each.start)).toEqual([]);
  expect(await second.sql("select count(*)::int as n from kept")).toEqual([{ n: 0 }]);
});

test("--reset begins with a fresh database", async () => {
  const first = await start();
  await first.sql("create table gone (id int)");
  await first.kill("SIGTERM");
  await using second = await start({ stateDir: first.stateDir, args: ["--reset"] });
  expect(await second.sql("select to_regclass('gone') as gone")).toEqual([{ gone: null }]);
});

test.each([
  [
    "a trigger that fails",
    (r: Parameters<Parameters<typeof writeSmallAssembly>[0] & object>[0]) => {
      (r["Fn"]!.Properties!["Environment"] as { Variables: Record<string, string> }).Variables["TRIGGER_FAILS"] = "1";
    },
    "TRIGGER_FAILED: Trigger Trigger: its function worker failed: Error: this migration is broken",
  ],
  [
    "a resource type on no list",
    (r: Record<string, unknown>) => {
      r["Bucket"] = { Type: "AWS::S3::Bucket" };
    },
    "RESOURCE_TYPE_UNKNOWN: Bucket is an AWS::S3::Bucket",
  ],
  [
    "a mapping whose role may not read the queue",
    (r: Parameters<Parameters<typeof writeSmallAssembly>[0] & object>[0]) => {
      const { Statement } = r["Policy"]!.Properties!["PolicyDocument"] as { Statement: { Action: string[] }[] };
      const polling = Statement.find(({ Action }) => Action.includes("sqs:ReceiveMessage"))!;
      polling.Action = polling.Action.filter((each) => each !== "sqs:ReceiveMessage");
    },
    "ROLE_LACKS_PERMISSION: Role may not sqs:ReceiveMessage on arn:aws:sqs:us-east-1:000000000000:items; AWS would refuse the event source mapping",
  ],
])("%s fails the start and leaves nothing", async (_, change, text) => {
  using broken = writeSmallAssembly(change as never);
  const stateDir = mkdtempSync(join(tmpdir(), "millrace-stack-"));
  const starting = startLocalStack({ assembly: broken.folder, stateDir });
  await expect(starting).rejects.toMatchObject({ code: "STACK_DIED", message: expect.stringContaining(text) });
  expect(existsSync(join(stateDir, "runner.json"))).toBe(false);
  rmSync(stateDir, { recursive: true });
});

test("a port that is taken is named, with the option to change it", async () => {
  const blocker = createServer();
  await new Promise<void>((resolve) => blocker.listen(0, "127.0.0.1", resolve));
  const { port } = blocker.address() as AddressInfo;
  const starting = start({ args: ["--port", String(port)] });
  await expect(starting).rejects.toThrow(`PORT_IN_USE: Port ${port} for the AWS services is taken`);
  blocker.close();
});
