import { expect, test } from "vitest";
import { type VolumeRow, volumeJson } from "../../../functions/api/volume-json.ts";

const at = (second: number) => new Date(Date.UTC(2026, 10, 30, 12, 0, second));
const row: VolumeRow = {
  id: "6a1f7c1e-8c0e-4a52-9d0f-0f0e6c9a1b2d",
  name: "data",
  size_gb: 10,
  status: "submitted",
  to_be_deleted: false,
  due_at: at(9),
  lock_owner: null,
  lock_expires_at: null,
  created_at: at(1),
  last_processed_at: at(2),
  item_state: null,
  attempts: null,
  last_error: null,
};

test("a new row has exactly the fields of the interface", () => {
  expect(volumeJson(row)).toEqual({
    id: row.id,
    name: "data",
    sizeGb: 10,
    status: "submitted",
    attempts: 0,
    lastError: null,
    nextTryAt: "2026-11-30T12:00:09.000Z",
    lockOwner: null,
    lockExpiresAt: null,
    createdAt: "2026-11-30T12:00:01.000Z",
    lastProcessedAt: "2026-11-30T12:00:02.000Z",
  });
});

test("a row in process shows its lock, its attempts and its last error", () => {
  const held = {
    lock_owner: "volumes",
    lock_expires_at: at(30),
    item_state: "processing",
    attempts: 2,
    last_error: "no",
  };
  expect(volumeJson({ ...row, ...held })).toMatchObject({
    status: "submitted",
    attempts: 2,
    lastError: "no",
    lockOwner: "volumes",
    lockExpiresAt: "2026-11-30T12:00:30.000Z",
  });
});

test.each([
  [{ status: "active" as const }, "active", null],
  [{ status: "active" as const, to_be_deleted: true }, "deleting", "2026-11-30T12:00:09.000Z"],
  [{ to_be_deleted: true }, "deleting", "2026-11-30T12:00:09.000Z"],
  [{ item_state: "failed" }, "submitted", "2026-11-30T12:00:09.000Z"],
  [{ item_state: "dead", due_at: null }, "failed", null],
  [{ item_state: "dead", due_at: null, to_be_deleted: true }, "deleting", null],
])("%j is shown as %s, with its next try at %s", (columns, status, nextTryAt) => {
  expect(volumeJson({ ...row, ...columns })).toMatchObject({ status, nextTryAt });
});
