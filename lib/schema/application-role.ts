import { sql } from "kysely";
import type { SchemaDatabase } from "./migrate.ts";
import { scramVerifier } from "./scram.ts";

export interface ApplicationRole {
  readonly username: string;
  readonly password: string;
}

/** Waits of the application's role are bounded: one open transaction delays others by seconds, not by a minute. */
const BOUNDS = { lock_timeout: "2s", statement_timeout: "30s", idle_in_transaction_session_timeout: "10s" } as const;

/**
 * Creates or updates the role that the functions use: it reads and writes rows, and owns nothing. The password itself is
 * never sent: PostgreSQL keeps texts of statements, also of those inside others, in logs and statistics.
 */
export async function prepareApplicationRole(database: SchemaDatabase, role: ApplicationRole): Promise<void> {
  const verifier = await scramVerifier(role.password);
  await database.kysely.transaction().execute(async (trx) => {
    await sql`select set_config('millrace.role', ${role.username}, true) as a, set_config('millrace.verifier', ${verifier}, true) as b`.execute(
      trx,
    );
    await sql`do 'begin
      if not exists (select 1 from pg_roles where rolname = current_setting(''millrace.role'')) then
        execute format(''create role %I login'', current_setting(''millrace.role''));
      end if;
      execute format(''alter role %I login password %L'', current_setting(''millrace.role''), current_setting(''millrace.verifier''));
    end'`.execute(trx);
    const user = sql.id(role.username);
    for (const [name, value] of Object.entries(BOUNDS))
      await sql`alter role ${user} set ${sql.id(name)} = ${sql.lit(value)}`.execute(trx);
    await sql`grant usage on schema millrace, public to ${user}`.execute(trx);
    await sql`grant select, update on millrace.pipelines, millrace.wakeups to ${user}`.execute(trx);
    await sql`grant select, insert, update on millrace.upkeep to ${user}`.execute(trx);
    await sql`grant select, insert, update, delete on millrace.items to ${user}`.execute(trx);
    await sql`grant select, insert, update, delete on all tables in schema public to ${user}`.execute(trx);
    await sql`grant usage on all sequences in schema public to ${user}`.execute(trx);
    await sql`alter default privileges in schema public grant select, insert, update, delete on tables to ${user}`.execute(
      trx,
    );
    await sql`alter default privileges in schema public grant usage on sequences to ${user}`.execute(trx);
  });
}
