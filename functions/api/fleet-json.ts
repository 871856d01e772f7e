import { type EngineRow, engineJson } from "./engine-json.ts";
import type { FleetJson } from "./json.ts";

/** A fleet's row, as far as the API shows it, with a count of its instances. */
export interface FleetRow extends EngineRow {
  readonly id: string;
  readonly name: string;
  readonly nodes: number;
  readonly slots: number;
  readonly to_be_deleted: boolean;
  readonly status_message: string | null;
  /** `{"idle": 2}`, as JSON text. */
  readonly instances: string;
}

/** A row as the API shows it. */
export function fleetJson(row: FleetRow): FleetJson {
  const { id, name, nodes, slots } = row;
  return {
    id,
    name,
    nodes,
    slots,
    status: row.to_be_deleted ? "deleting" : "active",
    statusMessage: row.status_message,
    instances: JSON.parse(row.instances) as FleetJson["instances"],
    ...engineJson(row, { passAhead: true }),
  };
}
