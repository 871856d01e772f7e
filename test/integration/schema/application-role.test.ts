import { randomBytes } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { prepareApplicationRole } from "../../../lib/index.ts";
import { type Migrating, readyFor, startMigrating } from "../../support/migrations.ts";

let m: Migrating;
let superuser: pg.Client;
// roles belong to the whole server, which other files share
const username = `app "${randomBytes(4).toString("hex")}`;
const password = `pw'${randomBytes(6).toString("hex")}`;
const quoted = `"${username.replaceAll('"', '""')}"`;

beforeAll(async () => {
  m = await startMigrating();
  superuser = await m.database.connect("superuser");
  await superuser.query("alter role millrace_owner createrole");
  await superuser.query("select pg_stat_statements_reset()");
  await m.run(readyFor(["submitted"]), { prepare: () => prepareApplicationRole(m.owner, { username, password }) });
});
afterAll(async () => {
  await superuser.query(`drop owned by ${quoted} cascade`);
  await m[Symbol.asyncDispose]();
  const admin = new pg.Client({ connectionString: inject("databaseUrl") });
  await admin.connect();
  await admin.query(`drop role ${quoted}; alter role millrace_owner nocreaterole`);
  await admin.end();
});

async function asRole<T>(work: (client: pg.Client) => Promise<T>, secret = password): Promise<T> {
  const url = new URL(inject("databaseUrl"));
  const client = new pg.Client({
    host: url.hostname,
    port: Number(url.port),
    database: m.database.name,
    user: username,
    password: secret,
  });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

test("its waits are bounded", async () => {
  const settings = await asRole((c) =>
    c.query(
      "select name, setting from pg_settings where name in ('lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout') order by 1",
    ),
  );
  expect(settings.rows).toEqual([
    { name: "idle_in_transaction_session_timeout", setting: "10000" },
    { name: "lock_timeout", setting: "2000" },
    { name: "statement_timeout", setting: "30000" },
  ]);
});

describe("it may", () => {
  test.each([
    "insert into things (name) values ('x')",
    "update things set note = 'x'",
    "select * from things",
    "delete from things",
    "insert into logs (message) values ('x')",
    "insert into millrace.items (item_id, pipeline, state) values (gen_random_uuid(), 'things', 'locked')",
    "delete from millrace.items",
    "update millrace.pipelines set paused_at = null",
    "update millrace.wakeups set wake_at = null",
    "insert into millrace.upkeep values ('sweep', now()) on conflict (task) do update set done_at = now()",
  ])("%s", async (statement) => {
    await asRole((c) => c.query(statement));
  });

  test("also use tables that a later migration makes", async () => {
    await m.rows("create table later (id bigserial primary key)");
    await asRole((c) => c.query("insert into later default values"));
  });
});

describe("it may not", () => {
  test.each([
    "create table mine (n int)",
    "create table millrace.mine (n int)",
    "create schema mine",
    "alter table things add column x int",
    "drop table things",
    "truncate things",
    "create index on things (name)",
    "drop trigger millrace_due on things",
    "insert into millrace.pipelines (name) values ('x')",
    "delete from millrace.pipelines",
    "select * from millrace.definitions",
    "update millrace.migration_lock set expires_at = now()",
    "create role mine",
    // what guards rows stays on
    "alter table things disable trigger all",
    "alter table things disable trigger millrace_due",
    "alter table millrace.items disable trigger all",
    "create or replace function millrace.make_due() returns trigger language plpgsql as 'begin return new; end'",
    "create trigger mine before update on things for each row execute function millrace.make_due()",
    "update pg_trigger set tgenabled = 'D'",
    "set session_replication_role = 'replica'",
    // nor does it become somebody else, or know what only the owner knows
    "set role millrace_owner",
    "set session authorization millrace_owner",
    "alter role millrace_owner password 'mine'",
    "grant select on millrace.definitions to public",
    "alter table things owner to current_user",
    "select rolpassword from pg_authid",
    "copy things to program 'true'",
    "truncate millrace.items",
    "drop table millrace.items",
    "alter table millrace.items alter column state drop not null",
    "drop schema millrace",
  ])("%s", async (statement) => {
    await expect(asRole((c) => c.query(statement))).rejects.toMatchObject({ code: "42501" });
  });
});

test("it owns nothing, is nobody's member and has no rights over the server", async () => {
  const { rows } = await superuser.query(
    `select rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls,
       (select count(*)::int from pg_auth_members where member = r.oid) as memberships,
       (select count(*)::int from pg_shdepend where refobjid = r.oid and deptype = 'o') as owned
     from pg_roles r where rolname = $1`,
    [username],
  );
  const rights = ["rolsuper", "rolcreaterole", "rolcreatedb", "rolreplication", "rolbypassrls"];
  expect(rows).toEqual([{ ...Object.fromEntries(rights.map((right) => [right, false])), memberships: 0, owned: 0 }]);
});

test("its password is in no statement's text, wherever PostgreSQL keeps one", async () => {
  const kept = await superuser.query("select query from pg_stat_statements where query ilike '%role%'");
  expect(kept.rows.length).toBeGreaterThan(0);
  expect(kept.rows.filter((r) => r.query.includes(password.slice(3)))).toEqual([]);
  const [role] = (await superuser.query("select rolpassword from pg_authid where rolname = $1", [username])).rows;
  expect(role.rolpassword).toMatch(/^SCRAM-SHA-256\$4096:/);
});

test("run again it changes the password and nothing else", async () => {
  await prepareApplicationRole(m.owner, { username, password: "another" });
  await expect(asRole(async () => undefined)).rejects.toMatchObject({ code: "28P01" });
  await asRole((c) => c.query("select * from things"), "another");
  await prepareApplicationRole(m.owner, { username, password });
  await asRole((c) => c.query("select * from things"));
});
