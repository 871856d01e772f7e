import { expect, test } from "vitest";
import { pipelines } from "../../../functions/pipelines/index.ts";
import { useWorld } from "./world.ts";

const the = useWorld();

test("all pipelines at once, with lost answers: each job runs once, and every place and volume is given back", async () => {
  const { cloud, sql } = the();
  for (const op of ["createInstance", "attachVolume", "runCommand", "readOutput", "detachVolume"] as const)
    cloud.loseAnswer(op);
  const fleet = await the().fleet(2, 2);
  const volume = await the().volume();
  const jobs: string[] = [];
  for (let n = 0; n < 6; n++) jobs.push(await the().job(fleet, n % 2 === 0 ? [volume] : []));

  for (let round = 0; round < 60; round++) {
    const done = await sql("select 1 from jobs where status = 'done'");
    if (done.length === jobs.length) break;
    for (const table of pipelines.tables)
      await sql(`update ${table} set due_at = now() where due_at > now() and lock_token is null`);
    await Promise.all(pipelines.pipelines.map(({ name }) => the().pass(name)));
    // all that run end together: their jobs give back places of the same instance at once
    const running = await sql("select command_id from jobs where status = 'running'");
    for (const { command_id } of running) cloud.exit(command_id, 0);
  }
  expect((await sql("select status from jobs")).map((r) => r["status"])).toEqual(jobs.map(() => "done"));
  expect(cloud.commands.size).toBe(jobs.length);
  expect(cloud.instances.size).toBe(2);
  expect(await sql("select busy from instances")).toEqual([{ busy: 0 }, { busy: 0 }]);
  expect(await sql("select attached from volumes")).toEqual([{ attached: 0 }]);
  expect([...cloud.volumes.values()]).toMatchObject([{ holder: undefined }]);
  await the().atRest();
});
