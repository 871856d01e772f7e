import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ProcessTable, processStart } from "../../infra/local/process-table.ts";
import { expectNothingHeld, idleFleet, submitJob, untilInstances, untilJob } from "../support/compute.ts";
import { startLocalStack } from "../support/stack.ts";
import { until } from "../support/until.ts";
import { createVolume, untilStatus } from "../support/volumes.ts";

test("the stack is killed with jobs running and started again: they are found dead and reported, everything converges", async () => {
  const first = await startLocalStack();
  const { stateDir } = first;
  const fleet = await idleFleet(first, "survivor", 2, 2);
  const volume = await createVolume(first, "data");
  await untilStatus(first, "data", "active");
  const running = await Promise.all([
    submitJob(first, fleet.id, ["sleep", "600"]),
    submitJob(first, fleet.id, ["sh", "-c", "echo begun; sleep 600"], [volume.id]),
    submitJob(first, fleet.id, ["sleep", "600"]),
  ]);
  for (const job of running) await untilJob(first, job.id, ["running"]);
  // in the middle of a placement and of a resize, too
  await submitJob(first, fleet.id, ["sleep", "600"]);
  await first.api("PATCH", `/fleets/${fleet.id}`, { nodes: 3 });
  const processes = new ProcessTable(join(stateDir, "processes.jsonl")).alive();
  await first.kill("SIGKILL");
  rmSync(join(stateDir, "local.json")); // of the killed one, not to be taken for the next one's

  await using again = await startLocalStack({ stateDir });
  expect(processes.filter(({ pid, start }) => processStart(pid) === start)).toEqual([]);
  for (const job of running)
    expect(await untilJob(again, job.id, ["failed"], 150_000)).toMatchObject({
      statusMessage: expect.stringMatching(/gone|lost/),
    });
  // the fourth job runs, or was among the lost ones; either way there are three working instances, as was asked for
  await until(
    async () => {
      const rows = await again.sql("select status from instances where fleet_id = $1", [fleet.id]);
      return rows.length === 3 && rows.every(({ status }) => status === "idle" || status === "busy");
    },
    { what: "three working instances", timeoutMs: 150_000, everyMs: 100 },
  );
  expect(await again.sql("select 1 from instances where id = any ($1)", [fleet.instances])).toEqual([]);
  const [row] = await again.sql("select attached from volumes where id = $1", [volume.id]);
  expect(row.attached).toBe(0);

  // what is new works: on a new instance, with the volume
  const after = await submitJob(again, fleet.id, ["sh", "-c", "ls -d data"], [volume.id]);
  expect(await untilJob(again, after.id, ["done", "failed"])).toMatchObject({ status: "done" });
  expect((await again.api("DELETE", `/fleets/${fleet.id}`)).status).toBe(202);
  await untilInstances(again, fleet.id, {}, 120_000);
  await expectNothingHeld(again);
}, 420_000);
