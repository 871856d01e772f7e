import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ProcessTable } from "../../infra/local/process-table.ts";
import {
  expectNothingHeld,
  idleFleet,
  millrace,
  millraceJson,
  submitJob,
  untilInstances,
  untilJob,
} from "../support/compute.ts";
import { type LocalStack, startLocalStack } from "../support/stack.ts";
import { until } from "../support/until.ts";

let stack: LocalStack;
beforeAll(async () => {
  stack = await startLocalStack();
});
afterAll(() => stack?.stop());

test("a newcomer's way: a fleet, a job whose output appears, an idle instance, a volume whose files stay", async () => {
  const fleet = await millraceJson(stack, "fleets", "create", "dev", "--nodes", "2");
  const ran = await millrace(stack, "jobs", "run", "--fleet", "dev", "--", "sh", "-c", "echo hello; sleep 1; echo bye");
  expect(ran).toMatchObject({ code: 0, stdout: expect.stringContaining("hello\nbye\n") });
  await untilInstances(stack, fleet.id, { idle: 2 });
  expect((await millraceJson(stack, "jobs", "list")).items).toMatchObject([{ status: "done", exitCode: 0 }]);

  await millraceJson(stack, "volumes", "create", "data", "--size", "1");
  const write = await millrace(
    stack,
    ...["jobs", "run", "--fleet", "dev", "--volume", "data", "--", "sh", "-c", "echo kept > data/file; ls data"],
  );
  expect(write).toMatchObject({ code: 0, stdout: expect.stringContaining("file") });
  const read = await millrace(
    stack,
    ...["jobs", "run", "--fleet", "dev", "--volume", "data", "--", "cat", "data/file"],
  );
  expect(read).toMatchObject({ code: 0, stdout: expect.stringContaining("kept") });
  expect(await stack.sql("select 1 from attachments")).toEqual([]);
  await untilInstances(stack, fleet.id, { idle: 2 });
  await expectNothingHeld(stack);
});

test("a job that fails says so, with its exit code and its output", async () => {
  const { id } = await idleFleet(stack, "failing", 1);
  const ran = await millrace(stack, "jobs", "run", "--fleet", "failing", "--", "sh", "-c", "echo bad; exit 3");
  expect(ran).toMatchObject({ code: 1, stdout: expect.stringContaining("bad") });
  const missing = await submitJob(stack, id, ["no-such-program-here"]);
  expect(await untilJob(stack, missing.id, ["failed"])).toMatchObject({ exitCode: 127 });
});

test("a job that is stopped ends terminated, its process gone; its output stays when its instance is gone", async () => {
  const { id } = await idleFleet(stack, "stopping", 1);
  const job = await submitJob(stack, id, ["sh", "-c", "trap '' TERM; echo started; while :; do sleep 0.1; done"]);
  await untilJob(stack, job.id, ["running"]);
  await until(async () => (await stack.api("GET", `/jobs/${job.id}/output?from=0`)).body.text.includes("started"), {
    what: "the job's output",
    timeoutMs: 30_000,
  });
  expect((await stack.api("POST", `/jobs/${job.id}/stop`)).status).toBe(202);
  // it ignores SIGTERM: the grace of ten seconds, then SIGKILL
  expect(await untilJob(stack, job.id, ["terminated"])).toMatchObject({ exitCode: 137, stopRequested: true });
  expect((await stack.api("DELETE", `/fleets/${id}`)).status).toBe(202);
  await until(async () => (await stack.sql("select 1 from fleets where id = $1", [id])).length === 0, {
    what: "the fleet to be gone",
    timeoutMs: 90_000,
  });
  expect((await millrace(stack, "jobs", "logs", job.id)).stdout).toContain("started");
});

test("a fleet that is deleted while its job runs stops the job, and leaves nothing at the cloud", async () => {
  const { id } = await idleFleet(stack, "leaving", 2);
  const job = await submitJob(stack, id, ["sleep", "600"]);
  await untilJob(stack, job.id, ["running"]);
  await stack.api("DELETE", `/fleets/${id}`);
  expect(await untilJob(stack, job.id, ["terminated"])).toMatchObject({ stopRequested: true });
  await until(async () => (await stack.sql("select 1 from instances where fleet_id = $1", [id])).length === 0, {
    what: "the instances to be gone",
    timeoutMs: 90_000,
  });
  expect((await stack.api("GET", `/fleets/${id}`)).status).toBe(404);
});

test("an instance that dies is replaced; its job has failed, and says why", async () => {
  const { id, instances } = await idleFleet(stack, "dying", 1);
  const job = await submitJob(stack, id, ["sleep", "600"]);
  await untilJob(stack, job.id, ["running"]);
  const [row] = await stack.sql("select provider_id from instances where id = $1", [instances[0]]);
  const machine = new ProcessTable(join(stack.stateDir, "processes.jsonl"))
    .alive()
    .find(({ what }) => what === `instance ${row.provider_id}`);
  process.kill(machine!.pid, "SIGKILL");
  expect(await untilJob(stack, job.id, ["failed"])).toMatchObject({
    statusMessage: expect.stringMatching(/gone|lost/),
  });
  await untilInstances(stack, id, { idle: 1 });
  const [replaced] = await stack.sql("select id from instances where fleet_id = $1", [id]);
  expect(replaced.id).not.toBe(instances[0]);
});

test("twenty jobs race for five places: never more than five run, and all are done", async () => {
  const { id } = await idleFleet(stack, "racing", 5);
  const jobs: unknown[] = [];
  // the API answers ten at once
  while (jobs.length < 20)
    jobs.push(...(await Promise.all(Array.from({ length: 5 }, () => submitJob(stack, id, ["sleep", "0.2"])))));
  const busiest = async () =>
    Math.max(...(await stack.sql("select busy from instances where fleet_id = $1", [id])).map((r) => r.busy));
  await until(
    async () => {
      expect(await busiest()).toBeLessThanOrEqual(1);
      const [{ n }] = await stack.sql(
        "select count(*)::int as n from jobs where fleet_id = $1 and instance_id is not null and status in ('provisioning', 'running', 'terminating')",
        [id],
      );
      expect(n).toBeLessThanOrEqual(5);
      const [{ done }] = await stack.sql(
        "select count(*)::int as done from jobs where fleet_id = $1 and status = 'done'",
        [id],
      );
      return done === jobs.length;
    },
    { what: "twenty jobs to be done", timeoutMs: 180_000, everyMs: 50 },
  );
  await untilInstances(stack, id, { idle: 5 });
  await expectNothingHeld(stack);
}, 240_000);

test("nothing is left in the folders of instances that are gone", async () => {
  const left = join(stack.stateDir, "cloud", "instances");
  const rows = await stack.sql("select provider_id from instances where provider_id is not null");
  const ids = new Set(rows.map((r) => r.provider_id));
  expect(existsSync(left)).toBe(true);
  expect(readdirSync(left).filter((id) => !ids.has(id))).toEqual([]);
});
