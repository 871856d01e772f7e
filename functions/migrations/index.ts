import type { Migration } from "kysely";
import { createVolumes } from "./0001-volumes.ts";
import { createFleets } from "./0002-fleets.ts";
import { createInstances } from "./0003-instances.ts";
import { createJobs } from "./0004-jobs.ts";
import { createAttachments } from "./0005-attachments.ts";
import { createEvents } from "./0006-events.ts";
import { indexVolumeNames } from "./0007-volume-names.ts";
import { addOutputFrom } from "./0008-output-from.ts";
import { indexDeletingVolumes } from "./0009-deleting-volumes.ts";
import { fenceTables } from "./0010-fences.ts";

/** The application's migrations, by name; they run in this order, each once. */
export const migrations: Readonly<Record<string, Migration>> = {
  "0001_volumes": createVolumes,
  "0002_fleets": createFleets,
  "0003_instances": createInstances,
  "0004_jobs": createJobs,
  "0005_attachments": createAttachments,
  "0006_events": createEvents,
  "0007_volume_names": indexVolumeNames,
  "0008_output_from": addOutputFrom,
  "0009_deleting_volumes": indexDeletingVolumes,
  "0010_fences": fenceTables,
};
