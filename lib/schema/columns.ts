import { type Kysely, sql } from "kysely";
import { QUEUE_STORAGE } from "./storage.ts";

/**
 * Adds the columns that a table needs for pipelines, for use in a migration. Rows that exist are due at once. The table
 * must have `id uuid primary key`. Safe to repeat.
 */
// biome-ignore lint/suspicious/noExplicitAny: migrations know no schema
export async function addPipelineColumns(db: Kysely<any>, table: string): Promise<void> {
  await sql`alter table ${sql.table(table)}
    add column if not exists created_at timestamptz not null default now(),
    add column if not exists last_processed_at timestamptz not null default now(),
    add column if not exists due_at timestamptz default now(),
    add column if not exists lock_expires_at timestamptz,
    add column if not exists lock_token uuid,
    add column if not exists lock_owner text`.execute(db);
  await sql`alter table ${sql.table(table)} set (${QUEUE_STORAGE})`.execute(db);
}
