import { describe, expect, test } from "vitest";
import { useWorld } from "./world.ts";

const the = useWorld();

const messages = async (id: string) =>
  (await the().sql("select message from events where subject_id = $1 order by at, id", [id])).map((e) => e["message"]);
const commandOf = async (job: string) => (await the().row("jobs", job))["command_id"] as string;

test("a job runs on an instance of its fleet, with its volume there, and gives everything back", async () => {
  const { cloud } = the();
  const fleet = await the().fleet(1);
  const volume = await the().volume("data");
  const job = await the().job(fleet, [volume]);
  await the().status(job, "running");
  const command = cloud.commands.get(await commandOf(job))!;
  expect(command).toMatchObject({ command: ["true"], volumes: ["data"] });
  expect((await the().instances(fleet)).map((i) => [i["status"], i["busy"]])).toEqual([["busy", 1]]);
  expect([...cloud.volumes.values()]).toMatchObject([{ holder: command.instanceId }]);

  command.output = Buffer.from("hello\0\n");
  cloud.exit(await commandOf(job), 0);
  const ended = await the().status(job, "done");
  expect(ended).toMatchObject({ exit_code: 0, output: "hello?\n", output_from: "0", status_message: null });
  expect(ended["finished_at"]).toBeInstanceOf(Date);
  expect((await the().instances(fleet)).map((i) => [i["status"], i["busy"]])).toEqual([["idle", 0]]);
  expect([...cloud.volumes.values()]).toMatchObject([{ holder: undefined }]);
  expect(await the().sql("select 1 from attachments")).toEqual([]);
  expect((await the().row("volumes", volume))["attached"]).toBe(0);
  expect(await messages(job)).toEqual([
    "Job was placed on instance 1",
    "Job started on instance 1",
    "Job exited with code 0",
    "Job ended: done",
  ]);
  await the().atRest();
});

test("a job that exits with another code has failed", async () => {
  const job = await the().job(await the().fleet(1));
  await the().status(job, "running");
  the().cloud.exit(await commandOf(job), 3);
  expect(await the().status(job, "failed")).toMatchObject({ exit_code: 3 });
});

test("a job without a free place waits, and starts when one is free", async () => {
  const fleet = await the().fleet(1);
  const [first, second] = [await the().job(fleet), await the().job(fleet)];
  await the().until("one runs", async () => {
    const rows = await the().sql("select status from jobs order by status");
    return rows.map((r) => r["status"]).join() === "running,submitted";
  });
  const [runs, waits] = (await the().row("jobs", first))["status"] === "running" ? [first, second] : [second, first];
  const waiting = await the().sql("select last_error, attempts from millrace.items where item_id = $1", [waits]);
  expect(waiting).toEqual([{ last_error: expect.stringContaining("contention"), attempts: 0 }]);
  the().cloud.exit(await commandOf(runs), 0);
  await the().status(waits, "running");
  await the().status(runs, "done");
});

test("two jobs share a volume on one instance; the last one gives it back", async () => {
  const { cloud } = the();
  const fleet = await the().fleet(2, 2);
  const volume = await the().volume();
  const jobs = [await the().job(fleet, [volume]), await the().job(fleet, [volume])] as const;
  for (const job of jobs) await the().status(job, "running");
  const instance = cloud.commands.get(await commandOf(jobs[0]))!.instanceId;
  expect((await the().row("volumes", volume))["attached"]).toBe(2);

  cloud.exit(await commandOf(jobs[0]), 0);
  await the().status(jobs[0], "done");
  expect([...cloud.volumes.values()]).toMatchObject([{ holder: instance }]);
  expect(cloud.calls).not.toContain("detachVolume");

  cloud.exit(await commandOf(jobs[1]), 0);
  await the().status(jobs[1], "done");
  expect([...cloud.volumes.values()]).toMatchObject([{ holder: undefined }]);
});

test("a job whose volume is on another instance waits for it", async () => {
  const fleet = await the().fleet(2);
  const volume = await the().volume();
  const [first, second] = [await the().job(fleet, [volume]), await the().job(fleet, [volume])];
  await the().until("one runs, one is told why not", async () => {
    const items = await the().sql(
      "select 1 from millrace.items where last_error like 'volume % is attached to instance 1'",
    );
    return items.length === 1;
  });
  const [runs, waits] = (await the().row("jobs", first))["status"] === "submitted" ? [second, first] : [first, second];
  await the().status(runs, "running");
  the().cloud.exit(await commandOf(runs), 0);
  await the().status(waits, "running");
});

describe("a stop", () => {
  test("of a job without a place ends it at once", async () => {
    const job = await the().job(await the().fleet(0));
    await the().want("jobs", job);
    expect(await the().status(job, "terminated")).toMatchObject({ status_message: "stopped before it was placed" });
  });

  test("of a running job stops its command", async () => {
    const job = await the().job(await the().fleet(1));
    await the().status(job, "running");
    await the().want("jobs", job);
    expect(await the().status(job, "terminated")).toMatchObject({ exit_code: 143, status_message: "stopped" });
  });

  test("that comes while the volumes are attached: nothing runs, and they are given back", async () => {
    const { cloud } = the();
    const job = await the().job(await the().fleet(1), [await the().volume()]);
    cloud.loseAnswer("attachVolume");
    cloud.during("attachVolume", () => the().want("jobs", job));
    expect(await the().status(job, "terminated")).toMatchObject({ status_message: "stopped before it ran" });
    expect(cloud.calls).not.toContain("runCommand");
    expect([...cloud.volumes.values()]).toMatchObject([{ holder: undefined }]);
  });

  test("that comes while the command is started, whose answer is lost: the command is found and stopped", async () => {
    const { cloud } = the();
    const job = await the().job(await the().fleet(1));
    cloud.loseAnswer("runCommand");
    cloud.during("runCommand", () => the().want("jobs", job));
    await the().status(job, "terminated");
    expect([...cloud.commands.values()]).toMatchObject([{ state: { state: "exited", exitCode: 143 } }]);
    expect(cloud.calls.filter((op) => op === "runCommand")).toHaveLength(2);
  });
});

describe("what a job cannot have", () => {
  test.each([
    ["a volume that is being deleted", "update volumes set to_be_deleted = true"],
    ["a volume that does not exist", "delete from volumes"],
  ])("%s fails it", async (_, statement) => {
    const volume = await the().volume();
    const job = await the().job(await the().fleet(1), [volume]);
    await the().sql(statement);
    expect(await the().status(job, "failed")).toMatchObject({
      status_message: "a volume of it is gone or being deleted",
    });
    expect(await the().sql("select 1 from instances where busy > 0")).toEqual([]);
  });

  test("a command that the cloud refuses for good fails it, and its place is free again", async () => {
    const fleet = await the().fleet(1);
    const [row] = await the().sql(
      "insert into jobs (fleet_id, fleet_name, command) values ($1, 'f', '[\"true\"]') returning id",
      [fleet],
    );
    await the().sql("alter table jobs drop constraint jobs_command_check");
    await the().sql("update jobs set command = '[]'");
    await the().status(row!["id"], "failed");
    expect((await the().instances(fleet)).map((i) => i["busy"])).toEqual([0]);
  });
});

test("a lost placement leaves nothing at the cloud and no place taken, and the next one is as good", async () => {
  const { cloud, api, sql } = the();
  const fleet = await the().fleet(2);
  const volume = await the().volume();
  await the().until("idle", async () => (await sql("select 1 from instances where status = 'idle'")).length === 2);
  await the().until("active", async () => (await the().row("volumes", volume))["status"] === "active");
  const job = await the().job(fleet, [volume]);
  const ports = await the().pass("jobs-submitted", {
    database: {
      async run(statement, options) {
        // somebody else goes on with the job, whose lock has expired
        if (statement.name === "apply jobs-submitted")
          await sql("update jobs set lock_token = null, lock_expires_at = null");
        return api.run(statement, options);
      },
    },
  });
  expect(ports.events.of("item.stale")).toMatchObject([{ id: job, phase: "apply" }]);
  expect(await sql("select 1 from attachments")).toEqual([]);
  expect(await sql("select busy from instances")).toEqual([{ busy: 0 }, { busy: 0 }]);

  await the().pass("jobs-submitted");
  expect(cloud.calls).not.toContain("attachVolume");
  const { instance_id } = await the().row("jobs", job);
  expect(await sql("select job_id, instance_id from attachments")).toEqual([{ job_id: job, instance_id }]);
  expect((await sql("select sum(busy)::int as n from instances"))[0]).toEqual({ n: 1 });
  await the().status(job, "running");
});
