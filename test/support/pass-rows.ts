import type { Selectable } from "kysely";
import type { Database } from "../../functions/pipelines/schema.ts";

const engine = {
  created_at: new Date(0),
  last_processed_at: new Date(0),
  due_at: new Date(0),
  lock_expires_at: null,
  lock_token: null,
  lock_owner: null,
};

type Row<T extends keyof Database> = Selectable<Database[T]>;

export const aVolume = (columns: Partial<Row<"volumes">> = {}): Row<"volumes"> => ({
  ...engine,
  id: "volume-1",
  name: "data",
  size_gb: 10,
  status: "active",
  status_message: null,
  to_be_deleted: false,
  provider_id: "vol-1",
  activated_at: null,
  attached: 0,
  ...columns,
});

export const aFleet = (columns: Partial<Row<"fleets">> = {}): Row<"fleets"> => ({
  ...engine,
  id: "fleet-1",
  name: "blue",
  nodes: 2,
  slots: 1,
  status: "active",
  status_message: null,
  to_be_deleted: false,
  resized_at: null,
  ...columns,
});

export const anInstance = (columns: Partial<Row<"instances">> = {}): Row<"instances"> => ({
  ...engine,
  id: "instance-1",
  fleet_id: "fleet-1",
  number: 1,
  status: "idle",
  busy: 0,
  slots: 1,
  provider_id: "i-1",
  provisioned_at: new Date(0),
  status_message: null,
  ...columns,
});

/** What every pass sees, beside its row. */
export const pass = {
  now: new Date(60_000),
  related: {},
  extra: undefined,
  attempt: 1,
  prevLockExpired: false,
  key: "k1",
  signal: new AbortController().signal,
} as const;

export const aJob = (columns: Partial<Row<"jobs">> = {}): Row<"jobs"> => ({
  ...engine,
  id: "job-1",
  fleet_id: "fleet-1",
  fleet_name: "blue",
  command: ["true"],
  volume_ids: [],
  status: "submitted",
  stop_requested: false,
  instance_id: null,
  command_key: null,
  command_id: null,
  exit_code: null,
  status_message: null,
  output: null,
  output_from: "0",
  started_at: null,
  finished_at: null,
  ...columns,
});
