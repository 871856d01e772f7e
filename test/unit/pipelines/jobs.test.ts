import { describe, expect, test } from "vitest";
import { preparing, running, starting } from "../../../functions/pipelines/jobs-running.ts";
import { cancelled, waiting } from "../../../functions/pipelines/jobs-submitted.ts";
import { terminating } from "../../../functions/pipelines/jobs-terminating.ts";
import { memoryCloud } from "../../support/memory-cloud.ts";
import { aJob, anInstance, aVolume, pass } from "../../support/pass-rows.ts";

/** A cloud with an instance `i-k1` and a volume `vol-k1`. */
async function cloudWithInstance() {
  const cloud = memoryCloud();
  const { id } = await cloud.createInstance({ key: "k1", tag: "instance-1", name: "blue-1" }, pass);
  const volume = await cloud.createVolume({ key: "k1", tag: "volume-1", name: "data", sizeGb: 1 }, pass);
  return { cloud, place: { id: "instance-1", number: 1, provider_id: id }, volume: { id: volume.id, name: "data" } };
}

describe("placing", () => {
  const row = aJob({ volume_ids: ["volume-1"] });
  const services = { cloud: memoryCloud() };
  const place = (
    volumes: ReturnType<typeof aVolume>[],
    extra: { instance_id: string; number: number; name: string }[],
  ) =>
    waiting.process(
      { ...pass, row, related: { instance: anInstance({ busy: 1, slots: 2 }), volumes }, extra },
      services,
    );

  test("takes a place and counts the volumes; the cloud is asked for nothing", async () => {
    expect(
      await place([aVolume({ attached: 1 })], [{ instance_id: "instance-1", number: 1, name: "data" }]),
    ).toMatchObject({
      changes: {
        set: { status: "provisioning", instance_id: "instance-1" },
        related: {
          instance: { set: { status: "busy", busy: 2 } },
          volumes: [{ id: "volume-1", set: { attached: 2 } }],
        },
        insert: { attachments: [{ volume_id: "volume-1", instance_id: "instance-1", job_id: "job-1" }] },
      },
    });
    expect(services.cloud.calls).toEqual([]);
  });

  test("waits for a volume that is not active yet, or is on another instance", async () => {
    expect(await place([aVolume({ status: "submitted" })], [])).toEqual({
      kind: "retry",
      reason: "volume data is not active yet",
    });
    expect(await place([aVolume()], [{ instance_id: "instance-2", number: 2, name: "data" }])).toEqual({
      kind: "retry",
      reason: "volume data is attached to instance 2",
    });
  });

  test("fails for want of what cannot be had, and takes no place", async () => {
    const failed = {
      changes: { set: { status: "failed", status_message: "a volume of it is gone or being deleted" } },
    };
    expect(await place([aVolume({ to_be_deleted: true })], [])).toMatchObject(failed);
    const none = { ...pass, row: { ...row, fleet_id: null }, related: {}, extra: [] };
    expect(await waiting.process(none, services)).toMatchObject({
      changes: { set: { status: "failed", status_message: "its fleet is gone" } },
    });
  });

  test("one that was stopped is terminated", async () => {
    expect(await cancelled.process({ ...pass, row }, services)).toMatchObject({
      changes: { set: { status: "terminated" } },
    });
  });
});

describe("running", () => {
  const row = aJob({ status: "provisioning", instance_id: "instance-1" });

  test("attaches, then starts once, however often", async () => {
    const { cloud, place, volume } = await cloudWithInstance();
    const extra = { instance: place, volumes: [volume] };
    expect(await preparing.process({ ...pass, row, extra }, { cloud })).toMatchObject({
      changes: { set: { command_key: "k1" } },
    });
    const keyed = { ...row, command_key: "k1" };
    for (let n = 0; n < 2; n++)
      expect(await starting.process({ ...pass, row: keyed, extra, key: `k${n + 2}` }, { cloud })).toMatchObject({
        changes: { set: { status: "running", command_id: "cmd-k1" } },
      });
    expect(cloud.commands.size).toBe(1);
  });

  test("an error that is not the instance's end is thrown", async () => {
    const { cloud, place, volume } = await cloudWithInstance();
    const extra = { instance: place, volumes: [volume] };
    const keyed = { ...row, command_key: "k1" };
    await expect(starting.process({ ...pass, row: keyed, extra }, { cloud })).rejects.toThrow("VOLUME_NOT_ATTACHED");
  });

  test("looks every second at first, then as the state says; a stop is asked for in every pass", async () => {
    const { cloud, place } = await cloudWithInstance();
    const { id } = await cloud.runCommand({ key: "c", instanceId: "i-k1", command: ["true"], volumes: [] }, pass);
    const at = (seconds: number, more = {}) => {
      const started = aJob({ status: "running", command_id: id, started_at: new Date(0), ...more });
      const snapshot = { ...pass, row: started, extra: place, now: new Date(seconds * 1000) };
      return running.process(snapshot, { cloud });
    };
    expect(await at(14)).toEqual({ kind: "apply", changes: { due: 1 } });
    expect(await at(15)).toEqual({ kind: "apply", changes: {} });
    expect(await at(15, { stop_requested: true })).toEqual({ kind: "apply", changes: { due: 1 } });
    expect(await at(16, { stop_requested: true })).toMatchObject({ changes: { set: { exit_code: 143 } } });
  });

  test("a lost command says why, or that its instance is gone", async () => {
    const { cloud, place } = await cloudWithInstance();
    const lost = () => running.process({ ...pass, row: aJob({ command_id: "cmd-x" }), extra: place }, { cloud });
    expect(await lost()).toMatchObject({ changes: { set: { status_message: "cmd-x is not known" } } });
    cloud.die("i-k1");
    expect(await lost()).toMatchObject({
      changes: { set: { status_message: "instance 1 is gone" }, request: { instances: [{ id: "instance-1" }] } },
    });
  });
});

describe("ending", () => {
  const end = async (columns: Parameters<typeof aJob>[0], instance = anInstance({ status: "busy", busy: 1 })) => {
    const related = { attachments: [], instance, volumes: [] };
    return terminating.process({ ...pass, row: aJob(columns), related, extra: [] }, { cloud: memoryCloud() });
  };

  test.each([
    ["done", { exit_code: 0 }],
    ["done", { exit_code: 0, stop_requested: true }],
    ["failed", { exit_code: 2 }],
    ["terminated", { exit_code: 143, stop_requested: true }],
    ["terminated", { status_message: "stopped before it ran", stop_requested: true }],
    ["failed", { status_message: "instance 1 is gone", stop_requested: true }],
  ])("is %s with %j", async (status, columns) => {
    expect(await end(columns)).toMatchObject({ changes: { set: { status } } });
  });

  test("gives the place back; the last one makes the instance idle, unless it is given up", async () => {
    const related = async (instance: Parameters<typeof anInstance>[0]) =>
      end({}, anInstance({ slots: 2, ...instance }));
    expect(await related({ status: "busy", busy: 2 })).toMatchObject({
      changes: { related: { instance: { set: { busy: 1 } } } },
    });
    expect(await related({ status: "busy", busy: 1 })).toMatchObject({
      changes: { related: { instance: { set: { busy: 0, status: "idle" } } } },
    });
    const leaving = await related({ status: "terminating", busy: 1 });
    expect(leaving).toMatchObject({ changes: { related: { instance: { set: { busy: 0 } } } } });
    expect(JSON.stringify(leaving)).not.toContain("idle");
  });
});
