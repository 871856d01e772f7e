import type pg from "pg";
import { TABLES } from "./tables.ts";

/*
 * Schema `sim` stands before pg_catalog in the search path of a simulated database, so that every unqualified now() of
 * the production statements, of triggers and of defaults reads the simulated clock. PostgreSQL treats it as it treats its
 * own (stable, no arguments), so indexes are used as always.
 * https://www.postgresql.org/docs/17/runtime-config-client.html#GUC-SEARCH-PATH
 */
const CLOCK = `
  create schema sim;
  grant usage on schema sim to public;
  create table sim.clock (at timestamptz not null);
  insert into sim.clock values ('2030-01-01T00:00:00Z');
  grant select on sim.clock to public;
  create function sim.now() returns timestamptz language sql stable as
    $$ select coalesce(nullif(current_setting('sim.now', true), '')::timestamptz, (select at from sim.clock)) $$`;

/** What every transaction did to every row, in the order of the writes, with what the statement was given. */
const AUDIT = `
  create table sim.audit (seq bigint generated always as identity primary key, call int, statement text, sent text,
    at timestamptz, tbl text, id uuid, before jsonb, after jsonb);
  create index on sim.audit (id);
  create function sim.note() returns trigger language plpgsql security definer as $$
  begin
    insert into sim.audit (call, statement, sent, at, tbl, id, before, after)
    values (nullif(current_setting('sim.call', true), '')::int, current_setting('sim.statement', true), current_setting('sim.sent', true),
      sim.now(), tg_table_name, case when tg_op = 'DELETE' then old.id else new.id end,
      case when tg_op <> 'INSERT' then to_jsonb(old) end, case when tg_op <> 'DELETE' then to_jsonb(new) end);
    return null;
  end $$`;

/** Before any table is made: their defaults must find the simulated clock. */
export async function prepareVirtualTime(admin: pg.Client, database: string): Promise<void> {
  await admin.query(`alter database ${database} set search_path = sim, pg_catalog, public`);
  await admin.query("set search_path = sim, pg_catalog, public");
  await admin.query(CLOCK);
  await admin.query("grant create on schema sim to public");
}

/** After the tables are made. */
export async function installAudit(admin: pg.Client): Promise<void> {
  await admin.query(AUDIT);
  for (const table of TABLES)
    await admin.query(
      `create trigger zz_audit after insert or update or delete on ${table} for each row execute function sim.note()`,
    );
}
