import type { VolumeJson, VolumeStatus } from "./json.ts";

/** A volume's row with what the engine remembers of its last item; the item's columns are null before its first. */
export interface VolumeRow {
  readonly id: string;
  readonly name: string;
  readonly size_gb: number;
  readonly status: "submitted" | "active";
  readonly to_be_deleted: boolean;
  readonly due_at: Date | null;
  readonly lock_owner: string | null;
  readonly lock_expires_at: Date | null;
  readonly created_at: Date;
  readonly last_processed_at: Date;
  readonly item_state: string | null;
  readonly attempts: number | null;
  readonly last_error: string | null;
}

/** A row as the API shows it. */
export function volumeJson(row: VolumeRow): VolumeJson {
  return {
    id: row.id,
    name: row.name,
    sizeGb: row.size_gb,
    status: statusOf(row),
    attempts: row.attempts ?? 0,
    lastError: row.last_error,
    // An active volume has no pass ahead, whatever its due_at says.
    nextTryAt: row.to_be_deleted || row.status === "submitted" ? iso(row.due_at) : null,
    lockOwner: row.lock_owner,
    lockExpiresAt: iso(row.lock_expires_at),
    createdAt: row.created_at.toISOString(),
    lastProcessedAt: row.last_processed_at.toISOString(),
  };
}

function statusOf({ to_be_deleted, status, item_state }: VolumeRow): VolumeStatus {
  if (to_be_deleted) return "deleting";
  return status === "submitted" && item_state === "dead" ? "failed" : status;
}

const iso = (date: Date | null) => date?.toISOString() ?? null;
