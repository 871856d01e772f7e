import { sql } from "kysely";
import type { Clock, Database } from "../engine/ports.ts";
import { MillraceError } from "../errors.ts";
import { type Sql, uuid } from "../sql/parts.ts";
import { statement } from "../sql/statement.ts";

/** A lock outlives its last extension by this much; a killed run's lock is taken over after it. */
const LOCK_SECONDS = 30;
/** The holder extends this often. */
const EXTEND_SECONDS = 5;
/** The Data API rolls a transaction back after three minutes without a call; nobody is excluded longer by one. */
const TRANSACTION_SECONDS = 200;

/** Held while migrations run: one run at a time, by a row with token and expiry, without session or open transaction. */
export interface MigrationLock {
  readonly token: string;
  /** Runs a transaction that may keep the row from being extended meanwhile. @throws MIGRATION_LOCK_LOST */
  during<T>(work: () => Promise<T>): Promise<T>;
  /** @throws MIGRATION_LOCK_LOST */
  extend(seconds?: number): Promise<void>;
}

export interface LockWait {
  /** Give up after so many seconds. */
  readonly waitSeconds: number;
  /** Called at each look while another run holds the lock. */
  readonly waiting?: (until: string) => void;
}

/** Takes the lock, works, and gives it back. @throws MIGRATION_LOCKED after `waitSeconds` */
export async function withMigrationLock<T>(
  database: Database,
  clock: Clock,
  wait: LockWait,
  work: (lock: MigrationLock) => Promise<T>,
): Promise<T> {
  await createLockTable(database);
  const token = crypto.randomUUID();
  await acquire(database, clock, token, wait);
  const lock = holdLock(database, token);
  const stop = new AbortController();
  let paused = 0;
  const extending = (async () => {
    while (!stop.signal.aborted) {
      await clock.wait(EXTEND_SECONDS * 1000, stop.signal);
      if (!stop.signal.aborted && paused === 0) await lock.extend().catch(() => undefined);
    }
  })();
  try {
    return await work({
      ...lock,
      async during(inner) {
        paused++;
        try {
          await lock.extend(TRANSACTION_SECONDS);
          const result = await inner();
          await lock.extend();
          return result;
        } finally {
          paused--;
        }
      },
    });
  } finally {
    stop.abort();
    await extending;
    await database.run(
      statement("unlock", "migrations", sql`delete from millrace.migration_lock l where l.token = ${uuid(token)}`),
    );
  }
}

async function createLockTable(database: Database): Promise<void> {
  // two first runs at once: "if not exists" still fails for one of them, and then it exists
  const create = async (query: Sql) => {
    const run = () => database.run(statement("create", "lock", query));
    await run().catch(run);
  };
  await create(sql`create schema if not exists millrace`);
  await create(
    sql`create table if not exists millrace.migration_lock (name text primary key, token uuid not null, expires_at timestamptz not null)`,
  );
}

async function acquire(database: Database, clock: Clock, token: string, wait: LockWait): Promise<void> {
  const from = clock.now();
  for (;;) {
    const { rows } = await database.run(
      statement<{ ours: boolean; until: string }>(
        "lock",
        "migrations",
        sql`with l as (
  insert into millrace.migration_lock as l (name, token, expires_at) values ('migrations', ${uuid(token)}, now() + make_interval(secs => ${sql.lit(LOCK_SECONDS)}))
  on conflict (name) do update set token = excluded.token, expires_at = excluded.expires_at
    where l.expires_at < now() or l.token = excluded.token
  returning l.expires_at)
select exists (select 1 from l) as ours, (select m.expires_at::text from millrace.migration_lock m) as until`,
      ),
      { patient: true },
    );
    const answer = rows[0];
    if (answer?.ours) return;
    const waited = Math.round((clock.now() - from) / 1000);
    const until = answer?.until ?? "?";
    if (waited >= wait.waitSeconds) throw new MillraceError("MIGRATION_LOCKED", { until, seconds: waited });
    wait.waiting?.(until);
    await clock.wait(1000);
  }
}

function holdLock(database: Database, token: string): Omit<MigrationLock, "during"> {
  return {
    token,
    async extend(seconds = LOCK_SECONDS) {
      const { rows } = await database.run(
        statement<{ name: string }>(
          "extend",
          "migrations",
          sql`update millrace.migration_lock l set expires_at = now() + make_interval(secs => ${sql.lit(seconds)}) where l.token = ${uuid(token)} returning l.name`,
        ),
        { patient: true },
      );
      if (rows.length === 0) throw new MillraceError("MIGRATION_LOCK_LOST");
    },
  };
}
