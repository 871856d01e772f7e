import { applySql } from "../../lib/sql/apply.ts";
import { claimSql } from "../../lib/sql/claim.ts";
import { failSql, releaseSql, resetSql } from "../../lib/sql/end.ts";
import { enqueueSql } from "../../lib/sql/enqueue.ts";
import { fetchSql } from "../../lib/sql/fetch.ts";
import { heartbeatSql } from "../../lib/sql/heartbeat.ts";
import { scopeOf } from "../../lib/sql/parts.ts";
import { renewSql } from "../../lib/sql/renew.ts";
import { requestSql } from "../../lib/sql/request.ts";
import type { Statement } from "../../lib/sql/statement.ts";
import { sweepSql } from "../../lib/sql/sweep.ts";
import type { createDatabaseOn } from "../../test/support/database-on.ts";
import { createEngineOn, testRegistry } from "../../test/support/engine-on.ts";

export interface Case {
  readonly name: string;
  readonly statement: Statement<unknown>;
  /** More buffers than this are too many. */
  readonly most?: number;
}

interface Row {
  readonly id: string;
  readonly token: string;
}

/** A queue limit of 20. */
const WORKERS = 10;
const IN_FLIGHT = 20;
const FETCH_MOST = 50;

export const makeEngine = (database: Awaited<ReturnType<typeof createDatabaseOn>>) =>
  createEngineOn(database, testRegistry({ workers: WORKERS }));
export type Engine = Awaited<ReturnType<typeof makeEngine>>;

/** Rows that become due in an hour, each with an item that ended; never analysed, and autovacuum will not do it. */
export async function fill({ admin }: Engine, rows: number): Promise<void> {
  await admin("alter table things set (autovacuum_enabled = off)");
  await admin("alter table millrace.items set (autovacuum_enabled = off)");
  await admin(
    `insert into things (name, due_at) select 't' || g, now() + interval '1 hour' + g * interval '1 ms' from generate_series(1, ${rows}) g`,
  );
  await admin(
    `insert into millrace.items (item_id, pipeline, state, finished_at, attempts, locked_at, queued_at, claimed_at)
      select id, 'things', 'applied', now(), 0, now(), now(), now() from things`,
  );
}

/** Nothing is due, nothing is in flight. */
export const quietCases = (engine: Engine): readonly Case[] => [fetchCase(engine, "fetch, nothing due", FETCH_MOST)];

/** More than enough rows are due. */
export async function dueCases(engine: Engine): Promise<readonly Case[]> {
  await engine.admin(
    "update things set due_at = now() - interval '1 s' where id in (select id from things order by due_at desc limit 100)",
  );
  return [fetchCase(engine, "fetch of 20", 1000)];
}

function fetchCase({ registry }: Engine, name: string, most: number): Case {
  const token = crypto.randomUUID();
  return {
    name,
    most,
    statement: fetchSql(scopeOf(registry, registry.get("things")), { token, accepted: [], scheduled: false }),
  };
}

/** So many rows in flight, some just sent, some queued, the rest being processed. */
export async function busyCases(engine: Engine): Promise<readonly Case[]> {
  const locked = await hold(engine, "locked", 10);
  const queued = await hold(engine, "queued", 10);
  const running = await hold(engine, "processing", IN_FLIGHT);
  const p = engine.registry.get("things");
  const scope = scopeOf(engine.registry, p);
  const ofSize = (n: number): Case[] => {
    const mine = running.slice(0, n).map((row) => ({ ...row, seen: null, reason: "bench", keep: false, left: 60 }));
    const items = mine.map((row) => ({
      ...row,
      set: { note: "n" },
      nows: ["seen_at"],
      delete: false,
      due: 15,
      due_by_default: true,
    }));
    const logs = mine.map(({ id, token }) => ({ item: id, token, row: { thing_id: id, message: "m" }, nows: [] }));
    const keys = queued.slice(0, n).map((row) => ({ ...row, next: crypto.randomUUID() }));
    const cases: [string, Statement<unknown>][] = [
      ["enqueue", enqueueSql(p, locked.slice(0, n), [], 1)],
      ["claim", claimSql(p, keys, "bench", { alone: false, skipLocked: true })],
      ["renew", renewSql(p, mine)],
      ["apply", applySql(scope, items, { inserts: [{ table: "logs", columns: ["thing_id", "message"], rows: logs }] })],
      ["reset", resetSql(scope, mine)],
      ["fail", failSql(scope, mine)],
      ["release", releaseSql(scope, mine)],
    ];
    return cases.map(([name, statement]) => ({ name: `${name} of ${n}`, statement, most: 60 + 40 * n }));
  };
  const ids = running.slice(0, 1).map(({ id }) => id);
  return [
    ...ofSize(1),
    ...ofSize(10),
    { name: "request of 1", statement: requestSql("things", scope.siblings, ids, { to_be_deleted: true }), most: 100 },
    { name: "heartbeat, 40 in flight", statement: heartbeatSql(engine.registry), most: 1500 },
    { name: "sweep, 40 in flight", statement: sweepSql(engine.registry, false), most: 1500 },
  ];
}

async function hold({ admin }: Engine, state: string, n: number): Promise<readonly Row[]> {
  return admin<{ id: string; token: string }>(
    `with t as (
      update things set lock_token = gen_random_uuid(), lock_owner = 'things', lock_expires_at = now() + interval '5 s'
      where id in (select id from things where lock_token is null order by due_at limit ${n}) returning id, lock_token),
    i as (
      insert into millrace.items as i (item_id, pipeline, state, lock_token, locked_at, queued_at, claimed_at, alive_until, attempts)
      select t.id, 'things', '${state}', t.lock_token, now(), now(), now(), now() + interval '1 hour', 1 from t
      on conflict (item_id, pipeline) do update set state = excluded.state, lock_token = excluded.lock_token, finished_at = null,
        alive_until = excluded.alive_until, attempts = 1)
    select id, lock_token as token from t`,
  ) as Promise<Row[]>;
}
