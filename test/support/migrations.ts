import type { Clock } from "../../lib/index.ts";
import { migrate, type Registry, registry } from "../../lib/index.ts";
import { fetchIndexName, readyHash } from "../../lib/schema/fetch-index.ts";
import type { SchemaDatabase } from "../../lib/schema/migrate.ts";
import { connect, migrations, type Schema, things } from "./engine.ts";
import { createTestDatabase, type TestDatabase } from "./test-database.ts";

/** Waits pass at once, and the clock says that they have passed; what is stopped by a signal waits for that. */
export function impatientClock(onWait: () => Promise<unknown> | unknown = () => undefined): Clock {
  let now = 0;
  return {
    now: () => now,
    async wait(ms, signal) {
      if (signal !== undefined) {
        if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
        return;
      }
      now += ms;
      await onWait();
    },
  };
}

/** `things`, ready where the status is one of these. */
export const readyFor = (statuses: readonly string[], name = "things"): Registry<unknown> =>
  registry([
    things.pipeline(name, {
      only: things.state({
        ready: (eb) => eb("status", "in", statuses as never),
        process: ({ apply }) => apply({}),
      }),
    }),
  ]);

export interface Migrating extends AsyncDisposable {
  readonly database: TestDatabase;
  readonly owner: SchemaDatabase;
  run(pipelines: Registry<unknown>, options?: Partial<Parameters<typeof migrate>[0]>): Promise<void>;
  /** The owner's database; `before` is called with the name of each statement before it runs. */
  watched(before: (statement: string) => Promise<unknown> | unknown): SchemaDatabase;
  rows(text: string): Promise<Record<string, unknown>[]>;
  /** Fetch indexes of `things`: name → valid. */
  indexes(): Promise<Record<string, boolean>>;
}

/** An empty database and its owner. */
export async function startMigrating(): Promise<Migrating> {
  const database = await createTestDatabase();
  const owner = connect<Schema>(database, database.dataApiConfig.ownerSecretArn);
  const rows = async (text: string) => (await database.ownerPool.query(text)).rows;
  return {
    database,
    owner,
    rows,
    run: (pipelines, options = {}) =>
      migrate({ database: owner, registry: pipelines, migrations, clock: impatientClock(), ...options }),
    watched: (before) => ({
      ...owner,
      async run(statement, options) {
        await before(statement.name);
        return owner.run(statement, options);
      },
    }),
    async indexes() {
      const found = await rows(
        "select c.relname, x.indisvalid from pg_index x join pg_class c on c.oid = x.indexrelid where x.indrelid = 'things'::regclass and c.relname like 'millrace_due%' order by 1",
      );
      return Object.fromEntries(found.map((r) => [r["relname"], r["indisvalid"]])) as Record<string, boolean>;
    },
    [Symbol.asyncDispose]: () => database.drop(),
  };
}

export const indexOf = (pipelines: Registry<unknown>): string =>
  fetchIndexName(pipelines.pipelines[0]!, readyHash(pipelines.pipelines[0]!));
