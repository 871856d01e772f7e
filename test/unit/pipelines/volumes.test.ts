import { describe, expect, test } from "vitest";
import type { Cloud } from "../../../functions/cloud/cloud.ts";
import { pipelines } from "../../../functions/pipelines/index.ts";
import { deleting, submitted, volumes } from "../../../functions/pipelines/volumes.ts";
import { NOW } from "../../../lib/index.ts";

const row = {
  id: "6a1f7c1e-8c0e-4a52-9d0f-0f0e6c9a1b2d",
  name: "data",
  size_gb: 10,
  status: "submitted" as const,
  status_message: null,
  to_be_deleted: false,
  provider_id: null,
  activated_at: null,
  created_at: new Date(0),
  last_processed_at: new Date(0),
  due_at: new Date(0),
  lock_expires_at: null,
  lock_token: null,
  lock_owner: "volumes",
};
const snapshot = {
  row,
  now: new Date(0),
  extra: undefined,
  attempt: 1,
  key: "k1",
  signal: new AbortController().signal,
};

/** Answers as told and keeps what it was asked. */
function recordingCloud(failure?: Error) {
  const calls: unknown[] = [];
  const record = (op: string, request: object, signal: AbortSignal) => {
    calls.push({ op, ...request, aborted: signal.aborted });
    if (failure !== undefined) throw failure;
  };
  const cloud: Cloud = {
    async createVolume(request, { signal }) {
      record("createVolume", request, signal);
      return { id: "vol-1" };
    },
    async deleteVolume(request, { signal }) {
      record("deleteVolume", request, signal);
    },
  };
  return { cloud, calls };
}

describe("submitted", () => {
  test("creates the volume under the pass's key and the row's id, and activates the row", async () => {
    const { cloud, calls } = recordingCloud();
    expect(await submitted.process(snapshot, { cloud })).toEqual({
      kind: "apply",
      changes: { set: { status: "active", provider_id: "vol-1", activated_at: NOW } },
    });
    expect(calls).toEqual([{ op: "createVolume", key: "k1", tag: row.id, name: "data", sizeGb: 10, aborted: false }]);
  });

  test("lets the cloud's error through: the engine counts the attempt", async () => {
    const { cloud } = recordingCloud(new Error("no disks left"));
    await expect(submitted.process(snapshot, { cloud })).rejects.toThrow("no disks left");
  });
});

describe("deleting", () => {
  test.each([null, "vol-1"])("deletes by tag with provider id %s, then the row", async (provider_id) => {
    const { cloud, calls } = recordingCloud();
    const doomed = { ...row, to_be_deleted: true, provider_id };
    expect(await deleting.process({ ...snapshot, row: doomed }, { cloud })).toEqual({
      kind: "apply",
      changes: { delete: true },
    });
    expect(calls).toEqual([{ op: "deleteVolume", tag: row.id, name: "data", aborted: false }]);
  });

  test("keeps the row when the cloud fails", async () => {
    const { cloud } = recordingCloud(new Error("try later"));
    await expect(deleting.process(snapshot, { cloud })).rejects.toThrow("try later");
  });
});

test("a row is in one state at most, and an active one in none", () => {
  expect(volumes.states.map(({ name, ready }) => [name, ready.text])).toEqual([
    ["submitted", `("status" = 'submitted' and "to_be_deleted" = false)`],
    ["deleting", `"to_be_deleted" = true`],
  ]);
});

test("the registry lists volumes, which gives up after five attempts", () => {
  expect(pipelines.pipelines.map(({ name }) => name)).toContain("volumes");
  expect(volumes.options.maxAttempts).toBe(5);
});
