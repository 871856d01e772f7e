import { type Kysely, type Migration, sql } from "kysely";
import { QUEUE_STORAGE } from "./storage.ts";

/** The engine's own migrations, by name, in schema `millrace`. */
export const engineMigrations: Readonly<Record<string, Migration>> = {
  "0001_engine": { up: (db) => createEngineTables(db) },
  "0002_reset_items": { up: (db) => indexResetItems(db) },
  "0003_orphans": { up: (db) => createOrphans(db) },
  "0004_fence": { up: (db) => createRefusal(db) },
};

async function createEngineTables(db: Kysely<unknown>): Promise<void> {
  await sql`create schema if not exists millrace`.execute(db);
  // one row a pipeline; the row is the fetcher's mutex
  await sql`create table millrace.pipelines (
    name text primary key, paused_at timestamptz, paused_by text, drain boolean not null default false, fetched_at timestamptz)`.execute(
    db,
  );
  // a row of its own: applies write it while a fetch holds the pipeline's row
  await sql`create table millrace.wakeups (
    pipeline text primary key references millrace.pipelines on delete cascade, wake_at timestamptz)`.execute(db);
  await sql`create table millrace.upkeep (task text primary key, done_at timestamptz not null)`.execute(db);
  await sql`create table millrace.definitions (
    pipeline text primary key references millrace.pipelines on delete cascade, hash text not null, previous_hash text, ready text not null)`.execute(
    db,
  );
  await sql`create table millrace.items (
    item_id uuid not null, pipeline text not null, state text not null, lock_token uuid, prev_lock_expired boolean not null default false,
    finished_tokens uuid[] not null default '{}', applied_token uuid, seen_due timestamptz,
    locked_at timestamptz, queued_at timestamptz, claimed_at timestamptz, finished_at timestamptz, alive_until timestamptz,
    attempts int not null default 0, resets int not null default 0, last_error text, worker text, related jsonb,
    primary key (item_id, pipeline)) with (${QUEUE_STORAGE})`.execute(db);
  // lock columns and state stand in no index, predicates included, or no lock update is HOT
  await sql`create index items_in_flight on millrace.items (pipeline) where finished_at is null`.execute(db);
  // the body is a plain string: the Data API's scanner does not know dollar quotes
  await sql`create function millrace.make_due() returns trigger language plpgsql as
    'begin new.due_at = case when old.due_at = now() then now() + interval ''1 microsecond'' else now() end; return new; end'`.execute(
    db,
  );
}

/**
 * The sweep finds rows that wait for another try, perhaps with an owner who does not want them any more. `resets` changes
 * only where an item ends, which is no HOT update anyway.
 */
async function indexResetItems(db: Kysely<unknown>): Promise<void> {
  await sql`create index items_reset on millrace.items (pipeline) where resets > 0`.execute(db);
}

/** What lost applies may have left behind at providers, until somebody has looked; it outlives row and item. */
async function createOrphans(db: Kysely<unknown>): Promise<void> {
  await sql`create table millrace.orphans (
    token uuid primary key, pipeline text not null, item_id uuid not null, outcome text not null, what text not null,
    found_at timestamptz not null default now())`.execute(db);
  await sql`create index orphans_newest on millrace.orphans (found_at desc, token)`.execute(db);
}

/** What the triggers of `fenceTable` call when they refuse; the sentence says what to do. */
async function createRefusal(db: Kysely<unknown>): Promise<void> {
  await sql`create function millrace.refuse_unfenced() returns trigger language plpgsql as
    'begin raise exception using errcode = ''MR001'', message = format(
      ''row %s of %s is held by %s: use the writer, or wait; to take it from its holder, set lock_token, lock_owner and lock_expires_at to null first'',
      old.id, tg_table_name, coalesce(old.lock_owner, ''a writer'')); end'`.execute(db);
}
