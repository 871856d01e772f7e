import { type Migration, sql } from "kysely";
import { addPipelineColumns } from "../../lib/index.ts";

/** The table of jobs, which outlive their fleet and their instance. */
export const createJobs: Migration = {
  async up(db) {
    await sql`create table jobs (
      id uuid primary key default gen_random_uuid(),
      fleet_id uuid references fleets on delete set null,
      fleet_name text,
      command jsonb not null check (jsonb_typeof(command) = 'array' and command <> '[]'),
      volume_ids uuid[] not null default '{}',
      status text not null default 'submitted'
        check (status in ('submitted', 'provisioning', 'running', 'terminating', 'done', 'failed', 'terminated')),
      stop_requested boolean not null default false,
      instance_id uuid references instances on delete set null,
      command_key text,
      command_id text,
      exit_code integer,
      status_message text,
      output text,
      started_at timestamptz,
      finished_at timestamptz)`.execute(db);
    await addPipelineColumns(db, "jobs");
    await sql`create index jobs_newest on jobs (created_at desc, id)`.execute(db);
    // of one fleet, and for what its deletion looks at
    await sql`create index jobs_newest_of_fleet on jobs (fleet_id, created_at desc, id)`.execute(db);
    await sql`create index jobs_newest_by_status on jobs (status, created_at desc, id)`.execute(db);
    await sql`create index jobs_newest_of_fleet_by_status on jobs (fleet_id, status, created_at desc, id)`.execute(db);
    // for the foreign key, when an instance's row goes
    await sql`create index jobs_instance on jobs (instance_id)`.execute(db);
  },
};
