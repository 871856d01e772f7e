import type { Generated, Kysely } from "kysely";
import { sql } from "kysely";
import {
  addPipelineColumns,
  fenceTable,
  type Intent,
  type PipelineColumns,
  type PipelineOptions,
  pipelinesFor,
  type Registry,
  registry,
} from "../../lib/index.ts";
import { createEngineOn, migrations, type Schema, type TestEngine } from "./engine-on.ts";
import { createTestDatabase } from "./test-database.ts";

/** A parent that locks all of its members. */
interface Group extends PipelineColumns {
  id: Generated<string>;
  name: Generated<string>;
  status: Generated<"active" | "closing">;
  wanted: Intent<number | null>;
}

/** A child of a group, shared by tasks. */
interface Member extends PipelineColumns {
  id: Generated<string>;
  group_id: string;
  status: Generated<"new" | "idle" | "gone">;
  busy: Generated<number>;
  note: string | null;
}

/** Needs one member of its own choice, or several. */
interface Task extends PipelineColumns {
  id: Generated<string>;
  group_id: string | null;
  member_id: string | null;
  member_ids: Generated<string[]>;
  status: Generated<"waiting" | "running" | "ending" | "done">;
  stop: Intent<boolean>;
}

export interface RelatedSchema extends Schema {
  groups: Group;
  members: Member;
  tasks: Task;
}

const { on } = pipelinesFor<RelatedSchema, unknown>();
export const groups = on("groups");
export const members = on("members");
export const tasks = on("tasks");

/** Members of a group that are not gone. */
const ofGroup = groups.children("members", "group_id", (eb) => eb("status", "!=", "gone"));

export const active = groups.state({
  ready: (eb) => eb("status", "=", "active"),
  locks: { members: ofGroup },
  process: ({ apply }) => apply({}),
});
export const closing = groups.state({
  ready: (eb) => eb("status", "=", "closing"),
  locks: { members: groups.children("members", "group_id", undefined, { reserve: true }) },
  process: ({ apply }) => apply({ delete: true }),
});
export const tend = members.state({
  ready: (eb) => eb("status", "in", ["new", "idle"]),
  process: ({ apply }) => apply({ set: { status: "idle" } }),
});
export const waiting = tasks.state({
  ready: (eb) => eb("status", "=", "waiting"),
  locks: {
    member: tasks.pick(
      "members",
      { group_id: "group_id" },
      { where: (eb) => eb.and([eb("status", "=", "idle"), eb("busy", "<", 2)]), orderBy: ["busy"] },
    ),
  },
  process: ({ related, apply }) =>
    apply({
      set: { status: "running", member_id: related.member.id },
      related: { member: { set: { busy: related.member.busy + 1 } } },
    }),
});
export const running = tasks.state({
  ready: (eb) => eb("status", "=", "running"),
  locks: { members: tasks.parents("members", "member_ids") },
  process: ({ apply }) => apply({}),
});
export const ending = tasks.state({
  ready: (eb) => eb("status", "=", "ending"),
  locks: { member: tasks.parent("members", "member_id") },
  process: ({ related: { member }, apply }) =>
    apply({
      set: { status: "done" },
      ...(member === null ? {} : { related: { member: { set: { busy: member.busy - 1 } } } }),
    }),
});

/** The pipelines `groups`, `members` (makes way for groups), `tasks` and `endings`. */
export const relatedRegistry = (options: PipelineOptions = {}): Registry<unknown> =>
  registry([
    groups.pipeline("groups", { active, closing }, { workers: 20, ...options }),
    members.pipeline("members", { tend }, { workers: 20, yieldTo: [members.parent("groups", "group_id")], ...options }),
    tasks.pipeline("tasks", { waiting, running }, { workers: 20, ...options }),
    tasks.pipeline("endings", { ending }, { workers: 20, ...options }),
  ]);

export const relatedMigrations = {
  ...migrations,
  "0002-related": {
    async up(db: Kysely<unknown>) {
      await sql`create table groups (id uuid primary key default gen_random_uuid(), name text not null default 'g', status text not null default 'active', wanted int)`.execute(
        db,
      );
      await sql`create table members (id uuid primary key default gen_random_uuid(), group_id uuid not null references groups, status text not null default 'idle',
        busy int not null default 0, note text)`.execute(db);
      await sql`create index members_group on members (group_id)`.execute(db);
      await sql`create table tasks (id uuid primary key default gen_random_uuid(), group_id uuid references groups, member_id uuid,
        member_ids uuid[] not null default '{}', status text not null default 'waiting', stop boolean not null default false)`.execute(
        db,
      );
      for (const table of ["groups", "members", "tasks"]) await addPipelineColumns(db, table);
      await fenceTable(db, "groups", { intent: ["wanted"] });
      await fenceTable(db, "members");
      await fenceTable(db, "tasks", { intent: ["stop"] });
    },
  },
};

export interface RelatedEngine extends TestEngine {
  /** Inserts a row of a table; answers its id. */
  insert(table: "groups" | "members" | "tasks", columns?: Readonly<Record<string, unknown>>): Promise<string>;
  /** A group with so many idle members; members by id ascending. */
  group(size: number, columns?: Readonly<Record<string, unknown>>): Promise<{ id: string; members: string[] }>;
  /** One row, with all its columns. */
  row(table: string, id: string): Promise<Record<string, unknown>>;
}

/** A migrated database with groups, members and tasks, reached through the Data API. */
export async function createRelatedEngine(pipelines: Registry<unknown> = relatedRegistry()): Promise<RelatedEngine> {
  const engine = await createEngineOn(await createTestDatabase(), pipelines, relatedMigrations);
  const insert = async (table: string, columns: Readonly<Record<string, unknown>> = {}) => {
    const names = Object.keys(columns);
    const list = names.map((n) => `"${n}"`).join(", ");
    const text =
      names.length === 0
        ? `insert into ${table} default values`
        : `insert into ${table} (${list}) values (${names.map((_, n) => `$${n + 1}`).join(", ")})`;
    const [row] = await engine.query<{ id: string }>(`${text} returning id`, Object.values(columns));
    return row!.id;
  };
  return {
    ...engine,
    insert,
    async group(size, columns) {
      const id = await insert("groups", columns);
      const rows = await engine.query<{ id: string }>(
        "insert into members (group_id) select $1 from generate_series(1, $2) returning id",
        [id, size],
      );
      return { id, members: rows.map((r) => r.id).sort() };
    },
    async row(table, id) {
      const [row] = await engine.query<Record<string, unknown>>(`select * from ${table} where id = $1`, [id]);
      return row!;
    },
    async clear() {
      await engine.query("truncate tasks, members, groups cascade");
      await engine.clear();
    },
    [Symbol.asyncDispose]: () => engine[Symbol.asyncDispose](),
  };
}
