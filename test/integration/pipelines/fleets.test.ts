import { expect, test } from "vitest";
import { useWorld } from "./world.ts";

const the = useWorld();

const summary = async (fleet: string) =>
  (await the().instances(fleet)).map((i) => `${i["number"]} ${i["status"]}`).join(", ");
const settled = (fleet: string, wanted: string) =>
  the().until(`instances ${wanted}`, async () => (await summary(fleet)) === wanted);

test("a fleet makes its instances, each once, although answers are lost", async () => {
  const { cloud } = the();
  for (let n = 0; n < 3; n++) cloud.loseAnswer("createInstance");
  const fleet = await the().fleet(3);
  await settled(fleet, "1 idle, 2 idle, 3 idle");
  expect([...cloud.instances.values()].map(({ name }) => name.split("-").at(-1)).sort()).toEqual(["1", "2", "3"]);
  await the().atRest();
});

test("a smaller fleet gives up idle instances, the highest numbers first; busy ones when their jobs have ended", async () => {
  const { cloud } = the();
  const fleet = await the().fleet(3);
  await settled(fleet, "1 idle, 2 idle, 3 idle");
  const job = await the().job(fleet);
  await the().status(job, "running");
  await the().sql("update fleets set nodes = 1, due_at = now()");
  await settled(fleet, "1 busy");
  expect(cloud.instances.size).toBe(1);

  await the().sql("update fleets set nodes = 0, due_at = now()");
  await the().until(
    "told why it waits",
    async () => (await the().row("fleets", fleet))["status_message"] === "waits for the jobs of 1 of its instances",
  );
  cloud.exit((await the().row("jobs", job))["command_id"], 0);
  await settled(fleet, "");
  expect(cloud.instances.size).toBe(0);
  await the().until("no message", async () => (await the().row("fleets", fleet))["status_message"] === null);
});

test("an instance that died is replaced; its job has failed and says why", async () => {
  const { cloud } = the();
  const fleet = await the().fleet(1);
  const volume = await the().volume();
  const job = await the().job(fleet, [volume]);
  await the().status(job, "running");
  cloud.die([...cloud.instances.keys()][0]!);
  expect(await the().status(job, "failed")).toMatchObject({ status_message: "instance 1 is gone" });
  await the().until("replaced", async () => /^\d idle$/.test(await summary(fleet)));
  expect([...cloud.instances.values()]).toMatchObject([{ state: "running" }]);

  const next = await the().job(fleet, [volume]);
  await the().status(next, "running");
});

test("an instance that died before a placed job started fails the job too", async () => {
  const { cloud } = the();
  const fleet = await the().fleet(1);
  const job = await the().job(fleet, [await the().volume()]);
  cloud.during("attachVolume", async () => cloud.die([...cloud.instances.keys()][0]!));
  expect(await the().status(job, "failed")).toMatchObject({ status_message: "instance 1 is gone" });
});

test("deleting a fleet stops its jobs and leaves nothing", async () => {
  const { cloud } = the();
  const fleet = await the().fleet(2);
  const jobs = [await the().job(fleet), await the().job(fleet), await the().job(fleet)];
  await the().until("two run", async () => cloud.commands.size === 2);
  await the().want("fleets", fleet);
  await the().until("gone", async () => (await the().row("fleets", fleet)) === undefined);
  expect(cloud.instances.size).toBe(0);
  for (const job of jobs)
    expect(await the().row("jobs", job)).toMatchObject({ status: "terminated", fleet_id: null, instance_id: null });
  expect([...cloud.commands.values()].map(({ state }) => state.state)).toEqual(["exited", "exited"]);
  expect(await the().sql("select 1 from instances")).toEqual([]);
  await the().atRest();
});

test("deleting a fleet whose instance is being created leaves none at the cloud", async () => {
  const { cloud } = the();
  const fleet = await the().fleet(1);
  cloud.loseAnswer("createInstance");
  cloud.during("createInstance", () => the().want("fleets", fleet));
  await the().until("gone", async () => (await the().row("fleets", fleet)) === undefined);
  expect(cloud.calls).toContain("createInstance");
  expect(cloud.instances.size).toBe(0);
});

test("a job that comes while its fleet goes does not wait for ever", async () => {
  const job = await the().job(await the().fleet(0));
  await the().sql("delete from fleets");
  expect(await the().status(job, "failed")).toMatchObject({ status_message: "its fleet is gone" });
});

test("a volume that is deleted while a job has it goes when the job gives it back", async () => {
  const { cloud } = the();
  const volume = await the().volume();
  const job = await the().job(await the().fleet(1), [volume]);
  await the().status(job, "running");
  await the().want("volumes", volume);
  await the().pass("volumes");
  expect(cloud.calls).not.toContain("deleteVolume");
  cloud.exit((await the().row("jobs", job))["command_id"], 0);
  await the().until("gone", async () => (await the().row("volumes", volume)) === undefined);
  expect(await the().row("jobs", job)).toMatchObject({ status: "done" });
  expect(cloud.volumes.size).toBe(0);
});

test("a fleet at its size takes no lock on its instances, and a foreign one does not hold it up", async () => {
  const fleet = await the().fleet(2);
  await settled(fleet, "1 idle, 2 idle");
  await the().sql(
    "update instances set lock_token = gen_random_uuid(), lock_expires_at = now() + interval '1 hour' where number = 1",
  );
  // five minutes of passes, one every fifteen seconds
  for (let n = 0; n < 20; n++) {
    await the().sql("update fleets set due_at = now()");
    const ports = await the().pass("fleets");
    expect(ports.events.of("item.applied")).toHaveLength(1);
    expect(ports.statements.filter((name) => name.startsWith("lock-related"))).toEqual([]);
  }
  expect(await the().sql("select 1 from instances where lock_owner = 'fleets'")).toEqual([]);
  // control: a change of its size needs them, and waits for the one that is held
  await the().sql("update fleets set nodes = 1, due_at = now()");
  const ports = await the().pass("fleets");
  expect(ports.events.of("item.contention")).toHaveLength(1);
  await the().sql("update instances set lock_token = null, lock_expires_at = null");
  await settled(fleet, "1 idle");
});
