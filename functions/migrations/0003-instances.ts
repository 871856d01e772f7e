import { type Migration, sql } from "kysely";
import { addPipelineColumns } from "../../lib/index.ts";

/** The table of instances; a fleet locks its own, so it finds them by (fleet_id, number), the order in which jobs are placed too. */
export const createInstances: Migration = {
  async up(db) {
    await sql`create table instances (
      id uuid primary key default gen_random_uuid(),
      fleet_id uuid not null references fleets,
      number integer not null check (number > 0),
      status text not null default 'pending'
        check (status in ('pending', 'provisioning', 'idle', 'busy', 'terminating', 'terminated')),
      busy integer not null default 0,
      slots integer not null,
      provider_id text,
      provisioned_at timestamptz,
      status_message text,
      unique (fleet_id, number),
      check (busy between 0 and slots))`.execute(db);
    await addPipelineColumns(db, "instances");
    await sql`create index instances_newest_of_fleet on instances (fleet_id, created_at desc, id)`.execute(db);
  },
};
