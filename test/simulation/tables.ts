import { type Generated, type Kysely, sql } from "kysely";
import {
  addPipelineColumns,
  fenceTable,
  type Intent,
  type MigrateOptions,
  type PipelineColumns,
} from "../../lib/index.ts";

/* The tables that are simulated, fenced as users' tables are. */

interface Counted extends PipelineColumns {
  id: Generated<string>;
  size: Generated<number>;
  /** What somebody asked for, */
  wanted: Intent<number>;
  /** and what the last accepted pass saw of it. */
  done: Generated<number>;
}

interface Thing extends Counted {
  status: Generated<"new" | "built" | "on">;
  to_be_deleted: Intent<boolean>;
}
interface Group extends Counted {
  status: Generated<"active" | "closing">;
}
interface Member extends Counted {
  group_id: string;
  status: Generated<"new" | "idle">;
  busy: Generated<number>;
}
interface Task extends Counted {
  group_id: string;
  member_id: string | null;
  member_ids: Generated<string[]>;
  status: Generated<"waiting" | "running" | "ending" | "done">;
  /** Only in the new schema. */
  grade: Generated<number>;
}
interface Log {
  id: Generated<string>;
  /** The pass's key: no other pass that is accepted has the same. */
  key: string;
  /** Which of all the passes it was; 0: none, a writer. */
  pass: number;
  changes: Readonly<Record<string, number>>;
}
export interface Schema {
  things: Thing;
  groups: Group;
  members: Member;
  tasks: Task;
  logs: Log;
}

export const TABLES = ["groups", "members", "tasks", "things"] as const;

const oldTables: MigrateOptions["migrations"] = {
  "0001-subject": {
    async up(db: Kysely<unknown>) {
      const counted = sql`id uuid primary key, size int not null default 0, wanted int not null default 0, done int not null default 0`;
      await sql`create table things (${counted}, status text not null default 'new', to_be_deleted boolean not null default false)`.execute(
        db,
      );
      await sql`create table groups (${counted}, status text not null default 'active')`.execute(db);
      await sql`create table members (${counted}, group_id uuid not null, status text not null default 'new', busy int not null default 0)`.execute(
        db,
      );
      await sql`create index members_group on members (group_id)`.execute(db);
      await sql`create table tasks (${counted}, group_id uuid not null, member_id uuid, member_ids uuid[] not null default '{}',
        status text not null default 'waiting')`.execute(db);
      for (const table of TABLES) await addPipelineColumns(db, table);
      await fenceTable(db, "things", { intent: ["wanted", "to_be_deleted"] });
      for (const table of ["groups", "members"]) await fenceTable(db, table, { intent: ["wanted"] });
      await fenceTasks(db);
      await sql`create table logs (id bigint generated always as identity primary key, key text not null, pass int not null default 0, changes jsonb not null)`.execute(
        db,
      );
    },
  },
};

/** With whatever columns they have. */
export const fenceTasks = (db: Kysely<unknown>): Promise<void> => fenceTable(db, "tasks", { intent: ["wanted"] });

/** The tables before an upgrade, or after it. */
export const tablesOf = (version: "old" | "new"): MigrateOptions["migrations"] =>
  version === "old"
    ? oldTables
    : {
        ...oldTables,
        "0002-grades": {
          async up(db: Kysely<unknown>) {
            await sql`alter table tasks add column grade int not null default 0`.execute(db);
            await fenceTasks(db);
          },
        },
      };
