import { type Kysely, type Migration, Migrator, sql } from "kysely";
import type { DataApiDatabase } from "../adapters/data-api.ts";
import type { Pipeline } from "../define/pipeline.ts";
import type { Registry } from "../define/registry.ts";
import type { Clock } from "../engine/ports.ts";
import { MillraceError } from "../errors.ts";
import { readyAny, text, uuid } from "../sql/parts.ts";
import { statement } from "../sql/statement.ts";
import { backfill } from "./backfill.ts";
import { createDueTrigger } from "./due-trigger.ts";
import { engineMigrations } from "./engine-tables.ts";
import { createFetchIndex, dropOldIndexes, fetchIndexName, readyHash } from "./fetch-index.ts";
import { type LockWait, type MigrationLock, withMigrationLock } from "./migration-lock.ts";

/** The database as its owner sees it. */
// biome-ignore lint/suspicious/noExplicitAny: migrations know no schema
export type SchemaDatabase = DataApiDatabase<any>;

export interface MigrateOptions {
  readonly database: SchemaDatabase;
  readonly registry: Registry;
  /** The application's migrations, by name, run in alphabetical order, each once. */
  readonly migrations: Readonly<Record<string, Migration>>;
  readonly clock: Clock;
  /** Runs after the engine's tables exist and before the application's migrations: roles and grants. */
  readonly prepare?: (lock: MigrationLock) => Promise<void>;
  readonly wait?: LockWait;
  readonly log?: (message: string, details?: Readonly<Record<string, unknown>>) => void;
}

/**
 * Brings the database up to date: the engine's tables, the application's migrations, the trigger of each table whose rows
 * are locked, then for each pipeline its row and its index; rows that only a new definition makes ready are made due. One run at a time; a run that was
 * killed is repaired by the next.
 * @throws MIGRATION_LOCKED, MIGRATION_LOCK_LOST, MIGRATION_FAILED, COLUMN_MISSING, INDEX_BUILD
 */
export async function migrate(options: MigrateOptions): Promise<void> {
  const { database, registry, clock } = options;
  const log = options.log ?? (() => undefined);
  const wait = {
    waitSeconds: 600,
    waiting: (until: string) => log("another migration runs", { until }),
    ...options.wait,
  };
  await withMigrationLock(database, clock, wait, async (lock) => {
    await runMigrations(database, lock, "engine_migrations", engineMigrations, log);
    await options.prepare?.(lock);
    await runMigrations(database, lock, "migrations", options.migrations, log);
    for (const table of registry.lockedTables) await createDueTrigger(database, registry, table);
    for (const pipeline of registry.pipelines) await syncPipeline(options, lock, pipeline, log);
  });
}

async function runMigrations(
  database: SchemaDatabase,
  lock: MigrationLock,
  table: string,
  migrations: Readonly<Record<string, Migration>>,
  log: NonNullable<MigrateOptions["log"]>,
): Promise<void> {
  const migrator = new Migrator({
    db: database.kysely,
    provider: { getMigrations: async () => fenced(lock, migrations) },
    migrationTableSchema: "millrace",
    migrationTableName: table,
    migrationLockTableName: `${table}_lock`,
  });
  const { error, results } = await lock.during(() => migrator.migrateToLatest());
  for (const result of results ?? [])
    if (result.status === "Success") log("migrated", { migration: result.migrationName });
  if (error === undefined) return;
  if (error instanceof MillraceError) throw error;
  const failed = results?.find((r) => r.status === "Error")?.migrationName ?? "?";
  const message = error instanceof Error ? error.message : String(error);
  throw new MillraceError("MIGRATION_FAILED", { migration: failed, message }, { cause: error });
}

/** Inside its transaction each migration holds the lock's row: whoever took the lock over waits until it has ended. */
function fenced(lock: MigrationLock, migrations: Readonly<Record<string, Migration>>): Record<string, Migration> {
  const guard = async (db: Kysely<unknown>) => {
    const { rows } =
      await sql`select 1 from millrace.migration_lock l where l.token = ${uuid(lock.token)} for update`.execute(db);
    if (rows.length === 0) throw new MillraceError("MIGRATION_LOCK_LOST");
  };
  return Object.fromEntries(
    Object.entries(migrations).map(([name, migration]) => [
      name,
      {
        up: async (db: Kysely<unknown>) => {
          await guard(db);
          await migration.up(db);
        },
      },
    ]),
  );
}

async function syncPipeline(
  { database, clock }: MigrateOptions,
  lock: MigrationLock,
  p: Pipeline,
  log: NonNullable<MigrateOptions["log"]>,
): Promise<void> {
  const hash = readyHash(p);
  const ready = readyText(p);
  await database.run(
    statement(
      "register",
      p.name,
      sql`insert into millrace.pipelines (name) values (${text(p.name)}) on conflict (name) do nothing`,
    ),
  );
  await database.run(
    statement(
      "register",
      p.name,
      sql`insert into millrace.wakeups (pipeline) values (${text(p.name)}) on conflict (pipeline) do nothing`,
    ),
  );
  const { rows } = await database.run(
    statement<{ hash: string; previous_hash: string | null; ready: string }>(
      "definition",
      p.name,
      sql`select d.hash, d.previous_hash, d.ready from millrace.definitions d where d.pipeline = ${text(p.name)}`,
    ),
  );
  const known = rows[0];
  await createFetchIndex(database, clock, p, () => lock.extend());
  if (known?.hash !== hash) {
    const made = await makeNewlyReadyDue(database, lock, p, known?.ready);
    await database.run(
      statement(
        "define",
        p.name,
        // only under the lock: a run that lost it must not switch back what another one has switched since
        sql`insert into millrace.definitions as d (pipeline, hash, previous_hash, ready)
          select ${text(p.name)}, cast(${hash} as text), null, cast(${ready} as text) from millrace.migration_lock l where l.token = ${uuid(lock.token)}
          on conflict (pipeline) do update set previous_hash = d.hash, hash = excluded.hash, ready = excluded.ready where d.hash <> excluded.hash`,
      ),
    );
    await lock.extend();
    log("pipeline defined", { pipeline: p.name, hash, madeDue: made });
  }
  await lock.extend();
  const previous = known?.hash === hash ? known?.previous_hash : known?.hash;
  await dropOldIndexes(
    database,
    p,
    [hash, previous].filter((h) => h != null).map((h) => fetchIndexName(p, h)),
  );
}

/** UNDEFINED_COLUMN: https://www.postgresql.org/docs/17/errcodes-appendix.html */
const UNDEFINED_COLUMN = "42703";

/**
 * Rows that only the new definition makes ready are due at once. Where the old one cannot be asked any more, because the
 * migrations have taken a column away that it looked at, all ready rows are: a pass too many does no harm.
 */
async function makeNewlyReadyDue(
  database: SchemaDatabase,
  lock: MigrationLock,
  p: Pipeline,
  before: string | undefined,
): Promise<number> {
  const was = before === undefined ? sql`false` : sql.raw(`(${before})`);
  try {
    return await backfill(database, {
      table: p.table,
      set: sql`due_at = now()`,
      where: sql`${readyAny(p, "t")} and not coalesce(${was}, false) and (t.due_at is null or t.due_at > now())`,
      progress: () => lock.extend(),
    });
  } catch (error) {
    const gone = error instanceof MillraceError && error.details["sqlState"] === UNDEFINED_COLUMN;
    if (before === undefined || !gone) throw error;
    return makeNewlyReadyDue(database, lock, p, undefined);
  }
}

/** The readiness for a table aliased `t`, kept so that the next definition can be compared with it. */
const readyText = (p: Pipeline): string => p.states.map((s) => `(${s.ready.aliased})`).join(" or ");
