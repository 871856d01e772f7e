import { type Migration, sql } from "kysely";
import { addPipelineColumns } from "../../lib/index.ts";

/** The table of fleets. */
export const createFleets: Migration = {
  async up(db) {
    await sql`create table fleets (
      id uuid primary key default gen_random_uuid(),
      name text not null unique,
      nodes integer not null check (nodes between 0 and 100),
      slots integer not null default 1 check (slots between 1 and 16),
      status text not null default 'active' check (status in ('active')),
      status_message text,
      to_be_deleted boolean not null default false,
      resized_at timestamptz)`.execute(db);
    await addPipelineColumns(db, "fleets");
    await sql`create index fleets_newest on fleets (created_at desc, id)`.execute(db);
  },
};
