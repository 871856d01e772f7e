import { type Migration, sql } from "kysely";
import { addPipelineColumns } from "../../lib/index.ts";

/** The table of attachments. No pipeline works on it; a job locks its own. */
export const createAttachments: Migration = {
  async up(db) {
    await sql`create table attachments (
      id uuid primary key default gen_random_uuid(),
      volume_id uuid not null references volumes,
      instance_id uuid not null references instances,
      job_id uuid not null references jobs,
      unique (volume_id, job_id))`.execute(db);
    await addPipelineColumns(db, "attachments");
    await sql`create index attachments_job on attachments (job_id)`.execute(db);
    await sql`create index attachments_instance on attachments (instance_id)`.execute(db);
    // by volume they are found by the unique index
    await sql`alter table volumes add column attached integer not null default 0 check (attached >= 0)`.execute(db);
  },
};
