import { type Kysely, sql } from "kysely";
import { afterEach, beforeEach, expect, test } from "vitest";
import { addPipelineColumns, registry } from "../../../lib/index.ts";
import { type Migrating, startMigrating } from "../../support/migrations.ts";
import { active, groups, members, relatedMigrations, tend } from "../../support/related-tables.ts";

let m: Migrating;
beforeEach(async () => {
  m = await startMigrating();
});
afterEach(() => m[Symbol.asyncDispose]());

/** Locks members, which no pipeline works on. */
const locking = registry([groups.pipeline("groups", { active })]);
const made = (memberColumns: string, prepared: readonly string[]) => ({
  "0001": {
    async up(db: Kysely<unknown>) {
      await sql`create table groups (id uuid primary key, status text)`.execute(db);
      await sql`create table members (id uuid primary key, status text${sql.raw(memberColumns)})`.execute(db);
      for (const table of prepared) await addPipelineColumns(db, table);
    },
  },
});

test("a table that is only locked needs the columns of pipelines, and no index", async () => {
  await expect(m.run(locking, { migrations: made(", group_id uuid", ["groups"]) })).rejects.toMatchObject({
    code: "COLUMN_MISSING",
    details: { table: "members" },
  });
});

test("a table that is only locked gets no fetch index", async () => {
  await m.run(locking, { migrations: relatedMigrations });
  expect(
    await m.rows("select 1 from pg_indexes where tablename = 'members' and indexname like 'millrace_due%'"),
  ).toEqual([]);
  expect(await m.rows("select name from millrace.pipelines")).toEqual([{ name: "groups" }]);
});

test("the column by which children are found must exist", async () => {
  await expect(m.run(locking, { migrations: made("", ["groups", "members"]) })).rejects.toMatchObject({
    code: "COLUMN_MISSING",
    details: { table: "members", columns: "group_id" },
  });
});

test.each([
  [
    "that a parent is named by",
    {
      alone: groups.state({
        ready: (eb) => eb("status", "=", "active"),
        locks: { m: groups.parent("members", "leader" as never) },
        process: ({ apply }) => apply({}),
      }),
    },
    "groups",
    "leader",
  ],
  [
    "that a list of parents is in",
    {
      alone: groups.state({
        ready: (eb) => eb("status", "=", "active"),
        locks: { m: groups.parents("members", "leaders" as never) },
        process: ({ apply }) => apply({}),
      }),
    },
    "groups",
    "leaders",
  ],
  [
    "that a pick compares",
    {
      alone: groups.state({
        ready: (eb) => eb("status", "=", "active"),
        locks: { m: groups.pick("members", { group_id: "room" as never }) },
        process: ({ apply }) => apply({}),
      }),
    },
    "groups",
    "room",
  ],
  [
    "that a pick is ordered by",
    {
      alone: groups.state({
        ready: (eb) => eb("status", "=", "active"),
        locks: { m: groups.pick("members", { group_id: "id" }, { orderBy: ["rank" as never] }) },
        process: ({ apply }) => apply({}),
      }),
    },
    "members",
    "rank",
  ],
])("the column %s must exist", async (_, states, table, columns) => {
  await expect(
    m.run(registry([groups.pipeline("groups", states)]), { migrations: relatedMigrations }),
  ).rejects.toMatchObject({ code: "COLUMN_MISSING", details: { table, columns } });
});

test("so must the column that yieldTo names", async () => {
  const pipelines = registry([
    groups.pipeline("groups", {
      active: groups.state({
        ready: (eb) => eb("status", "=", "active"),
        locks: { members: groups.children("members", "team_id" as never) },
        process: ({ apply }) => apply({}),
      }),
    }),
    members.pipeline("members", { tend }, { yieldTo: [members.parent("groups", "team_id" as never)] }),
  ]);
  await expect(m.run(pipelines, { migrations: relatedMigrations })).rejects.toMatchObject({
    code: "COLUMN_MISSING",
    details: { table: "members", columns: "team_id" },
  });
});
