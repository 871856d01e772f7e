import type { ColumnType, Generated } from "kysely";
import type { Intent, PipelineColumns } from "../../lib/index.ts";

/** A disk at the cloud, wanted by somebody. */
interface Volume extends PipelineColumns {
  id: Generated<string>;
  name: string;
  size_gb: number;
  status: Generated<"submitted" | "active">;
  status_message: string | null;
  /** Somebody wants it gone; the row goes when no job has it and the cloud has nothing of it any more. */
  to_be_deleted: Intent<boolean>;
  /** The cloud's id of it; null until the creation was applied. */
  provider_id: string | null;
  activated_at: Date | null;
  /** Jobs that have it: its rows in `attachments`, counted here so that the last one's end makes a deletion due. */
  attached: Generated<number>;
}

/** So many instances, kept running for jobs. */
interface Fleet extends PipelineColumns {
  id: Generated<string>;
  name: string;
  /** Instances wanted. */
  nodes: number;
  /** Jobs that each instance runs at once. */
  slots: Generated<number>;
  status: Generated<"active">;
  status_message: string | null;
  /** Somebody wants it gone; the row goes after its jobs and instances. */
  to_be_deleted: Intent<boolean>;
  /** When instances were last added or given up. */
  resized_at: Date | null;
}

/** A machine at the cloud. */
interface Instance extends PipelineColumns {
  id: Generated<string>;
  fleet_id: string;
  /** Its number in the fleet, from 1. */
  number: number;
  status: Generated<"pending" | "provisioning" | "idle" | "busy" | "terminating" | "terminated">;
  /** Jobs that have a place on it. It is not deleted before they have given it back. */
  busy: Generated<number>;
  slots: number;
  provider_id: string | null;
  /** When the cloud had made it. */
  provisioned_at: Date | null;
  status_message: string | null;
}

/** A command that runs once on some instance of a fleet. */
interface Job extends PipelineColumns {
  id: Generated<string>;
  /** Null when the fleet is gone. */
  fleet_id: string | null;
  /** The fleet's name, which outlives it. */
  fleet_name: string | null;
  /** Program and arguments. Written as JSON text. */
  command: ColumnType<string[], string, string>;
  volume_ids: Generated<string[]>;
  status: Generated<"submitted" | "provisioning" | "running" | "terminating" | "done" | "failed" | "terminated">;
  stop_requested: Intent<boolean>;
  instance_id: string | null;
  /** Under which the cloud is asked to run the command; from then on it may have been asked. */
  command_key: string | null;
  command_id: string | null;
  exit_code: number | null;
  status_message: string | null;
  /** The last 64 KiB of what it wrote, kept at its end. */
  output: string | null;
  /** The byte of all that it wrote at which `output` begins. */
  output_from: ColumnType<string, number | undefined, number>;
  started_at: Date | null;
  finished_at: Date | null;
}

/** A volume that a job has on an instance. Written before the cloud is asked, so that nothing stays attached unknown. */
interface Attachment extends PipelineColumns {
  id: Generated<string>;
  volume_id: string;
  instance_id: string;
  job_id: string;
}

/** What has happened, one sentence in the past tense. */
interface Event {
  id: Generated<string>;
  at: Generated<Date>;
  kind: "volume" | "fleet" | "instance" | "job";
  subject_id: string;
  message: string;
}

export interface Database {
  volumes: Volume;
  fleets: Fleet;
  instances: Instance;
  jobs: Job;
  attachments: Attachment;
  events: Event;
}
