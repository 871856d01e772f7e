import { describe, expect, test } from "vitest";
import { pending, provisioning, serving, terminating } from "../../../functions/pipelines/instances.ts";
import { NOW } from "../../../lib/index.ts";
import { memoryCloud } from "../../support/memory-cloud.ts";
import { anInstance, pass } from "../../support/pass-rows.ts";

async function running() {
  const cloud = memoryCloud();
  const row = anInstance({ status: "pending", provider_id: null, number: 3 });
  const { id } = await cloud.createInstance({ key: "k1", tag: row.id, name: "blue-3" }, pass);
  return { cloud, row: { ...row, status: "provisioning" as const, provider_id: id }, id };
}
const toFleet = { fleets: [{ id: "fleet-1" }] };

describe("pending", () => {
  test("creates the instance under the pass's key, the same one when it is done again", async () => {
    const cloud = memoryCloud();
    const row = anInstance({ status: "pending", provider_id: null });
    const snapshot = { ...pass, row, extra: { name: "blue" } };
    const answer = await pending.process(snapshot, { cloud });
    expect(answer).toMatchObject({
      changes: { set: { status: "provisioning", provider_id: "i-k1", provisioned_at: NOW } },
    });
    expect(await pending.process(snapshot, { cloud })).toEqual(answer);
    expect([...cloud.instances.values()]).toMatchObject([{ tag: row.id, name: "blue-1" }]);
  });
});

describe("provisioning", () => {
  test("waits while it starts, and is idle when it is up", async () => {
    const { cloud, row, id } = await running();
    cloud.instances.get(id)!.state = "starting";
    expect(await provisioning.process({ ...pass, row }, { cloud })).toEqual({ kind: "apply", changes: {} });
    cloud.instances.get(id)!.state = "running";
    expect(await provisioning.process({ ...pass, row }, { cloud })).toMatchObject({
      changes: { set: { status: "idle" } },
    });
  });

  test("one that is not up after a quarter of an hour is given up, and the fleet told", async () => {
    const { cloud, row, id } = await running();
    cloud.instances.get(id)!.state = "starting";
    const at = (seconds: number) => provisioning.process({ ...pass, row, now: new Date(seconds * 1000) }, { cloud });
    expect(await at(900)).toEqual({ kind: "apply", changes: {} });
    expect(await at(901)).toMatchObject({
      changes: {
        set: { status: "terminating", status_message: "instance 3 was not up after 15 minutes" },
        request: toFleet,
      },
    });
  });

  test("one that died is given up", async () => {
    const { cloud, row, id } = await running();
    cloud.die(id);
    expect(await provisioning.process({ ...pass, row }, { cloud })).toMatchObject({
      changes: { set: { status: "terminating", status_message: "instance 3 is gone" }, request: toFleet },
    });
  });
});

describe("serving", () => {
  test("stays as it is while the cloud has it, also while it restarts; one that is gone is given up", async () => {
    const { cloud, row, id } = await running();
    const busy = { ...row, status: "busy" as const, busy: 1 };
    for (const state of ["running", "starting"] as const) {
      cloud.instances.get(id)!.state = state;
      expect(await serving.process({ ...pass, row: busy }, { cloud })).toEqual({ kind: "apply", changes: {} });
    }
    cloud.die(id);
    expect(await serving.process({ ...pass, row: busy }, { cloud })).toMatchObject({
      changes: { set: { status: "terminating", status_message: "instance 3 is gone" }, request: toFleet },
    });
  });

  test("an error of the cloud says nothing of the instance", async () => {
    const { cloud, row } = await running();
    cloud.loseAnswer("instanceState");
    await expect(serving.process({ ...pass, row }, { cloud })).rejects.toThrow("the answer was lost");
  });
});

test("terminating deletes by tag: also what a lost creation made", async () => {
  const { cloud, row } = await running();
  const doomed = { ...row, status: "terminating" as const, provider_id: null };
  expect(await terminating.process({ ...pass, row: doomed }, { cloud })).toMatchObject({
    changes: { set: { status: "terminated" }, request: toFleet },
  });
  expect(cloud.instances.size).toBe(0);
});
