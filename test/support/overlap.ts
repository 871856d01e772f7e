import type { TestEngine } from "./engine.ts";
import { onClient, type Run } from "./steps.ts";

export interface OpenTransaction extends AsyncDisposable {
  /** Runs a statement of the protocol inside the transaction. */
  readonly run: Run;
  query(text: string, values?: readonly unknown[]): Promise<void>;
  commit(): Promise<void>;
}

/** A transaction that somebody else holds open; rolled back at the end of the test unless committed. */
export async function openTransaction(engine: Pick<TestEngine, "database">): Promise<OpenTransaction> {
  const client = await engine.database.connect();
  await client.query("begin");
  return {
    run: onClient(client),
    async query(text, values = []) {
      await client.query(text, [...values]);
    },
    async commit() {
      await client.query("commit");
    },
    async [Symbol.asyncDispose]() {
      await client.query("rollback").catch(() => undefined);
      await client.end();
    },
  };
}

const LOCK = 4711;

/**
 * Makes statements of the application's role stop where they first read the table: they have their snapshot by then, so
 * what is committed before `goOn` is newer than what they see. The owner's statements do not stop.
 */
export async function stopReads(
  engine: Pick<TestEngine, "database">,
  table: string,
): Promise<AsyncDisposable & { goOn(): Promise<void> }> {
  const client = await engine.database.connect();
  await client.query(`
    create or replace function public.stop_here() returns boolean language plpgsql as
      'begin perform pg_advisory_xact_lock_shared(${LOCK}); return true; end';
    create policy stop on ${table} using (public.stop_here()) with check (true);
    alter table ${table} enable row level security`);
  await client.query(`select pg_advisory_lock(${LOCK})`);
  const goOn = async () => {
    await client.query(`select pg_advisory_unlock_all()`);
  };
  return {
    goOn,
    async [Symbol.asyncDispose]() {
      await goOn();
      await client.query(`alter table ${table} disable row level security; drop policy stop on ${table}`);
      await client.end();
    },
  };
}
