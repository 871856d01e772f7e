import { type EngineRow, engineJson } from "./engine-json.ts";
import type { VolumeJson, VolumeStatus } from "./json.ts";

/** A volume's row, as far as the API shows it. */
export interface VolumeRow extends EngineRow {
  readonly id: string;
  readonly name: string;
  readonly size_gb: number;
  readonly status: "submitted" | "active";
  readonly to_be_deleted: boolean;
}

/** A row as the API shows it. */
export function volumeJson(row: VolumeRow): VolumeJson {
  const { id, name, size_gb: sizeGb } = row;
  const passAhead = row.to_be_deleted || row.status === "submitted";
  return { id, name, sizeGb, status: statusOf(row), ...engineJson(row, { passAhead }) };
}

function statusOf({ to_be_deleted, status, item_state }: VolumeRow): VolumeStatus {
  if (to_be_deleted) return "deleting";
  return status === "submitted" && item_state === "dead" ? "failed" : status;
}
