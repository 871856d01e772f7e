import { describe, expect, test } from "vitest";
import { active, deleting } from "../../../functions/pipelines/fleets.ts";
import { NOW } from "../../../lib/index.ts";
import { memoryCloud } from "../../support/memory-cloud.ts";
import { aFleet, anInstance, pass } from "../../support/pass-rows.ts";

const services = { cloud: memoryCloud() };
const instance = (number: number, columns: Parameters<typeof anInstance>[0] = {}) =>
  anInstance({ id: `instance-${number}`, number, ...columns });
// biome-ignore lint/suspicious/noExplicitAny: an answer, looked into
const changesOf = (answer: any) => answer.changes;

async function look(nodes: number, instances: readonly ReturnType<typeof instance>[]) {
  const row = aFleet({ nodes, slots: 2 });
  return changesOf(await active.process({ ...pass, row, related: { instances } }, services));
}
// biome-ignore lint/suspicious/noExplicitAny: an answer, looked into
const givenUp = (changes: any) => changes.related.instances.filter((one: any) => one.set).map((one: any) => one.id);

describe("active", () => {
  test("makes what is missing, under the lowest numbers that no instance has", async () => {
    const dying = instance(3, { status: "terminating" });
    const { insert, set, related } = await look(4, [instance(2), dying]);
    expect(insert.instances.map((one: { number: number }) => one.number)).toEqual([1, 4, 5]);
    expect(insert.instances[0]).toMatchObject({ fleet_id: "fleet-1", slots: 2 });
    expect(insert.events.map((one: { subject_id: string }) => one.subject_id)).toEqual(
      insert.instances.map((one: { id: string }) => one.id),
    );
    expect(set).toEqual({ status_message: null, resized_at: NOW });
    expect(related).toEqual({ instances: [] });
  });

  test("gives up first what is not up yet, then the highest numbers, and nothing that a job has", async () => {
    const all = [
      instance(1),
      instance(2, { status: "pending", provider_id: null }),
      instance(3),
      instance(4, { status: "busy", busy: 1 }),
    ];
    expect(givenUp(await look(2, all))).toEqual(["instance-2", "instance-3"]);
    const changes = await look(0, all);
    expect(givenUp(changes)).toEqual(["instance-2", "instance-3", "instance-1"]);
    expect(changes).toMatchObject({ due: 5, set: { status_message: "waits for the jobs of 1 of its instances" } });
  });

  test("removes the rows of terminated ones, whose numbers are free in the next pass", async () => {
    const { related, insert } = await look(1, [instance(1, { status: "terminated" })]);
    expect(related.instances).toEqual([{ id: "instance-1", delete: true }]);
    expect(insert.instances.map((one: { number: number }) => one.number)).toEqual([2]);
  });

  test("writes nothing while all is well", async () => {
    expect(changesOf(await active.process({ ...pass, row: aFleet() }, services))).toEqual({});
    const row = aFleet({ status_message: "waits" });
    expect(changesOf(await active.process({ ...pass, row }, services))).toEqual({ set: { status_message: null } });
  });
});

describe("deleting", () => {
  const row = aFleet({ to_be_deleted: true });
  const end = async (
    instances: readonly ReturnType<typeof instance>[],
    jobs: { id: string; stop_requested: boolean }[],
  ) => changesOf(await deleting.process({ ...pass, row, related: { instances }, extra: jobs }, services));

  test("asks each job once to stop, and gives every instance up", async () => {
    const changes = await end(
      [instance(1, { status: "busy", busy: 1 }), instance(2, { status: "terminated" })],
      [
        { id: "job-1", stop_requested: false },
        { id: "job-2", stop_requested: true },
      ],
    );
    expect(changes.request).toEqual({ jobs: [{ id: "job-1", set: { stop_requested: true } }] });
    expect(changes.related.instances).toMatchObject([
      { id: "instance-2", delete: true },
      { id: "instance-1", set: { status: "terminating" } },
    ]);
    expect(changes.delete).toBeUndefined();
  });

  test("the row stays while an instance or a job is left", async () => {
    expect((await end([instance(1, { status: "terminating" })], [])).delete).toBeUndefined();
    expect((await end([], [{ id: "job-1", stop_requested: true }])).delete).toBeUndefined();
    expect((await end([instance(1, { status: "terminated" })], [])).delete).toBe(true);
  });
});
