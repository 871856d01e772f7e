import { type Migration, sql } from "kysely";

/**
 * The table of events. They have no foreign key: they outlive what they tell of, and a key would have every event lock
 * a row of a pipeline's table.
 */
export const createEvents: Migration = {
  async up(db) {
    await sql`create table events (
      id uuid primary key default gen_random_uuid(),
      at timestamptz not null default now(),
      kind text not null check (kind in ('volume', 'fleet', 'instance', 'job')),
      subject_id uuid not null,
      message text not null)`.execute(db);
    await sql`create index events_newest on events (at desc, id)`.execute(db);
    await sql`create index events_newest_of_subject on events (subject_id, at desc, id)`.execute(db);
  },
};
