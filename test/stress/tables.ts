import { type Kysely, sql } from "kysely";
import { addPipelineColumns, fenceTable, type MigrateOptions } from "../../lib/index.ts";
import { migrations } from "../support/engine-on.ts";
import { TABLES } from "./pipelines.ts";

/** Columns that are written while somebody holds the row: by other services, by transactions, by foreign keys. */
const OPEN: Readonly<Record<(typeof TABLES)[number], readonly string[]>> = {
  bits: ["size"],
  groups: ["size", "note", "status"],
  members: ["size"],
  parts: ["size"],
  tasks: ["size", "group_id", "member_id"],
  things: ["size", "to_be_deleted"],
};

/** `size` is counted by transactions of the application, `busy` under related locks. */
export const stressTables: MigrateOptions["migrations"] = {
  ...migrations,
  "0002-stress": {
    async up(db: Kysely<unknown>) {
      const id = sql`id uuid primary key default gen_random_uuid(), size int not null default 0, note text`;
      await sql`create table parts (${id}, status text not null default 'on', busy int not null default 0)`.execute(db);
      await sql`create table groups (${id}, status text not null default 'active')`.execute(db);
      await sql`create table members (${id}, group_id uuid not null references groups, status text not null default 'idle',
        busy int not null default 0)`.execute(db);
      await sql`create index members_group on members (group_id)`.execute(db);
      await sql`create table tasks (${id}, group_id uuid references groups on delete set null, member_id uuid references members on delete set null,
        member_ids uuid[] not null default '{}', part_id uuid, thing_id uuid, status text not null default 'waiting')`.execute(
        db,
      );
      await sql`create index tasks_group on tasks (group_id)`.execute(db);
      await sql`create index tasks_member on tasks (member_id)`.execute(db);
      await sql`create table bits (${id}, task_id uuid not null references tasks on delete cascade)`.execute(db);
      await sql`create index bits_task on bits (task_id)`.execute(db);
      for (const table of TABLES) if (table !== "things") await addPipelineColumns(db, table);
      await sql`alter table things alter column size set default 0, add column busy int not null default 0`.execute(db);
      for (const [table, intent] of Object.entries(OPEN)) await fenceTable(db, table, { intent });
      await sql`alter table logs add column changes jsonb not null default '{}'`.execute(db);
      await sql`create index logs_message on logs (message)`.execute(db);
    },
  },
};
