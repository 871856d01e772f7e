import { describe, expect, test } from "vitest";
import { deleting, submitted, volumes } from "../../../functions/pipelines/volumes.ts";
import { NOW } from "../../../lib/index.ts";
import { memoryCloud } from "../../support/memory-cloud.ts";
import { aVolume, pass } from "../../support/pass-rows.ts";

const row = aVolume({ status: "submitted", provider_id: null });
const event = (message: string) => ({ events: [{ kind: "volume", subject_id: row.id, message }] });

describe("submitted", () => {
  test("creates the volume under the pass's key and the row's id, and activates the row", async () => {
    const cloud = memoryCloud();
    expect(await submitted.process({ ...pass, row }, { cloud })).toEqual({
      kind: "apply",
      changes: {
        set: { status: "active", provider_id: "vol-k1", activated_at: NOW },
        insert: event("Volume data became active"),
      },
    });
    expect([...cloud.volumes]).toEqual([["vol-k1", { tag: row.id, name: "data", holder: undefined }]]);
  });

  test("lets the cloud's error through: the engine counts the attempt", async () => {
    const cloud = memoryCloud();
    cloud.loseAnswer("createVolume");
    await expect(submitted.process({ ...pass, row }, { cloud })).rejects.toThrow("the answer was lost");
  });
});

describe("deleting", () => {
  test.each([null, "vol-k1"])("deletes by tag with provider id %s, then the row", async (provider_id) => {
    const cloud = memoryCloud();
    await cloud.createVolume({ key: "k1", tag: row.id, name: "data", sizeGb: 1 }, pass);
    const doomed = { ...row, to_be_deleted: true, provider_id };
    expect(await deleting.process({ ...pass, row: doomed }, { cloud })).toEqual({
      kind: "apply",
      changes: { delete: true, insert: event("Volume data was deleted") },
    });
    expect(cloud.volumes.size).toBe(0);
  });

  test("keeps the row when the cloud fails", async () => {
    const cloud = memoryCloud();
    cloud.loseAnswer("deleteVolume");
    await expect(deleting.process({ ...pass, row }, { cloud })).rejects.toThrow("the answer was lost");
  });
});

test("a row is in one state at most; an active one and one that jobs have in none", () => {
  expect(volumes.states.map(({ name, ready }) => [name, ready.text])).toEqual([
    ["submitted", `("status" = 'submitted' and "to_be_deleted" = false)`],
    ["deleting", `("to_be_deleted" = true and "attached" = 0)`],
  ]);
});

test("gives up after five attempts", () => {
  expect(volumes.options.maxAttempts).toBe(5);
});
