import { type EngineRow, engineJson } from "./engine-json.ts";
import type { InstanceJson, InstanceStatus } from "./json.ts";

/** An instance's row, as far as the API shows it. */
export interface InstanceRow extends EngineRow {
  readonly id: string;
  readonly fleet_id: string;
  readonly number: number;
  readonly status: InstanceStatus;
  readonly busy: number;
  readonly slots: number;
  readonly provider_id: string | null;
  readonly status_message: string | null;
}

/** A row as the API shows it. */
export function instanceJson(row: InstanceRow): InstanceJson {
  const { id, fleet_id: fleetId, number, status, busy, slots } = row;
  return {
    id,
    fleetId,
    number,
    status,
    busy,
    slots,
    providerId: row.provider_id,
    statusMessage: row.status_message,
    // One that jobs still use is terminated when the last of them has ended.
    ...engineJson(row, { passAhead: status !== "terminated" && !(status === "terminating" && busy > 0) }),
  };
}
