import { type EngineRow, engineJson, iso } from "./engine-json.ts";
import type { JobJson, JobStatus } from "./json.ts";

/** A job's row, as far as the API shows it. */
export interface JobRow extends EngineRow {
  readonly id: string;
  readonly fleet_id: string | null;
  readonly fleet_name: string | null;
  /** A list of strings, as JSON text. */
  readonly command: string;
  /** A list of ids, as JSON text. */
  readonly volume_ids: string;
  readonly status: JobStatus;
  readonly stop_requested: boolean;
  readonly instance_id: string | null;
  readonly exit_code: number | null;
  readonly status_message: string | null;
  readonly started_at: Date | null;
  readonly finished_at: Date | null;
}

/** What a job never leaves again. */
const FINAL: readonly JobStatus[] = ["done", "failed", "terminated"];

export const hasEnded = ({ status }: { readonly status: JobStatus }): boolean => FINAL.includes(status);

/** A row as the API shows it. */
export function jobJson(row: JobRow): JobJson {
  return {
    id: row.id,
    fleetId: row.fleet_id,
    fleetName: row.fleet_name,
    command: JSON.parse(row.command) as JobJson["command"],
    volumeIds: JSON.parse(row.volume_ids) as JobJson["volumeIds"],
    status: row.status,
    stopRequested: row.stop_requested,
    instanceId: row.instance_id,
    exitCode: row.exit_code,
    statusMessage: row.status_message,
    startedAt: iso(row.started_at),
    finishedAt: iso(row.finished_at),
    ...engineJson(row, { passAhead: !hasEnded(row) }),
  };
}
