import { type Kysely, sql } from "kysely";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { addPipelineColumns, fenceTable, registry, unfenceTable } from "../../../lib/index.ts";
import { undecidedColumns } from "../../../lib/testing/index.ts";
import { type Migrating, startMigrating } from "../../support/migrations.ts";
import { active, groups } from "../../support/related-tables.ts";

/** Works on groups, and locks members, which have no pipeline. */
const pipelines = registry([groups.pipeline("groups", { active })]);
const MANAGED = "MR001";

let m: Migrating;
// biome-ignore lint/suspicious/noExplicitAny: tables of this file alone
let db: Kysely<any>;
beforeAll(async () => {
  m = await startMigrating();
  await m.run(registry([]), { migrations: {} });
  db = m.owner.kysely;
});
afterAll(() => m?.[Symbol.asyncDispose]());
beforeEach(async () => {
  await m.rows("drop table if exists groups, members, plain");
  await m.rows("create table groups (id uuid primary key default gen_random_uuid(), status text, name text)");
  await m.rows("create table members (id uuid primary key default gen_random_uuid(), group_id uuid, status text)");
  for (const table of ["groups", "members"]) await addPipelineColumns(db, table);
});

const held = () => m.rows("insert into groups (status, lock_token) values ('active', gen_random_uuid())");

test("a column of any kind is managed: json, lists, documents, and what is generated from them", async () => {
  await m.rows(`alter table groups add column note json, add column notes json[], add column spec jsonb default '{"a": 1}', add column tags text[],
    add column size int default 1, add column twice int generated always as (size * 2) stored`);
  await fenceTable(db, "groups");
  await held();
  await m.rows(`update groups set note = null, spec = '{"a":1}', size = 1`);
  for (const set of [`note = '{}'`, "notes = '{}'", `spec = '{}'`, "tags = '{x}'", "size = 2"])
    await expect(m.rows(`update groups set ${set}`), set).rejects.toMatchObject({ code: MANAGED });
});

test("a column that comes later is managed once the fence is made again", async () => {
  await fenceTable(db, "groups");
  await held();
  await m.rows("alter table groups add column size int, add column wanted int");
  await m.rows("update groups set size = 1, wanted = 1");
  await expect(m.rows("update groups set name = 'x'")).rejects.toMatchObject({ code: MANAGED });
  await fenceTable(db, "groups", { intent: ["wanted"] });
  await m.rows("update groups set wanted = 2");
  await expect(m.rows("update groups set size = 2")).rejects.toMatchObject({ code: MANAGED });
  expect(await m.rows("select tgname from pg_trigger where tgname like 'millrace_fence%' order by 1")).toEqual([
    { tgname: "millrace_fence" },
    { tgname: "millrace_fence_delete" },
  ]);
});

test("without its fence a table takes every write, and its columns can be changed", async () => {
  await fenceTable(db, "groups");
  await held();
  await expect(m.rows("alter table groups alter column name type varchar(9)")).rejects.toThrow("used in a trigger");
  await unfenceTable(db, "groups");
  await m.rows("alter table groups alter column name type varchar(9)");
  await m.rows("update groups set name = 'x'");
  await m.rows("delete from groups");
  await unfenceTable(db, "groups");
});

test("an intent column must exist", async () => {
  const fencing = fenceTable(db, "groups", { intent: ["status", "stauts"] });
  await expect(fencing).rejects.toMatchObject({
    code: "FENCE_COLUMN",
    details: { table: "groups", columns: "stauts" },
  });
});

test("a table without lock columns has nothing to fence", async () => {
  await m.rows("create table plain (id uuid primary key, due_at timestamptz, lock_token uuid)");
  await expect(fenceTable(db, "plain")).rejects.toMatchObject({
    code: "COLUMN_MISSING",
    details: { table: "plain", columns: "last_processed_at, lock_expires_at, lock_owner" },
  });
  await expect(fenceTable(db, "nowhere")).rejects.toMatchObject({ code: "COLUMN_MISSING" });
});

test.each(["on delete set null", "on delete set default", "on update cascade"])(
  "a column that a foreign key writes (%s) must be an intent",
  async (action) => {
    await m.rows(`alter table members add foreign key (group_id) references groups ${action}`);
    await expect(fenceTable(db, "members")).rejects.toMatchObject({
      code: "FENCE_COLUMN",
      details: { table: "members", columns: "group_id" },
    });
    await fenceTable(db, "members", { intent: ["group_id"] });
  },
);

test("a foreign key that writes nothing is no matter, and its column managed", async () => {
  await m.rows("alter table members add foreign key (group_id) references groups on delete cascade");
  await fenceTable(db, "members");
  await m.rows("insert into members (lock_token) values (gen_random_uuid())");
  await held();
  await expect(m.rows("update members set group_id = (select id from groups)")).rejects.toMatchObject({
    code: MANAGED,
  });
});

test("columns that nobody has decided about are found, also of tables that are only locked", async () => {
  await fenceTable(db, "groups", { intent: ["status"] });
  expect(await undecidedColumns(m.owner, pipelines)).toMatchObject([
    { table: "members", columns: expect.arrayContaining(["id", "group_id", "status"]) },
  ]);
  await fenceTable(db, "members");
  expect(await undecidedColumns(m.owner, pipelines)).toEqual([]);
  await m.rows("alter table groups add column size int, add column wanted int");
  await m.rows("alter table members add column note text");
  expect(await undecidedColumns(m.owner, pipelines)).toEqual([
    { table: "groups", columns: ["size", "wanted"] },
    { table: "members", columns: ["note"] },
  ]);
  await sql`comment on trigger millrace_fence on groups is null`.execute(db);
  expect(await undecidedColumns(m.owner, pipelines)).toMatchObject([{ table: "groups" }, { table: "members" }]);
});
