import { Kysely, PostgresDialect } from "kysely";
import type pg from "pg";
import { type ApplyItem, type ApplyRow, applySql } from "../../lib/sql/apply.ts";
import { type ClaimKey, claimSql } from "../../lib/sql/claim.ts";
import { type FetchRow, fetchSql } from "../../lib/sql/fetch.ts";
import type { InsertGroup } from "../../lib/sql/insert.ts";
import { scopeOf } from "../../lib/sql/parts.ts";
import type { Statement } from "../../lib/sql/statement.ts";
import type { TestEngine } from "./engine-on.ts";
import { until } from "./until.ts";

/** How a statement is run: through the Data API, or on one connection whose transaction a test holds open. */
export type Run = <Row>(statement: Statement<Row>) => Promise<readonly Row[]>;

/** Runs statements on one connection. */
export function onClient(client: pg.Client): Run {
  const connection = { query: client.query.bind(client), release() {} };
  const pool = { connect: async () => connection, end: async () => undefined };
  const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: pool as never }) });
  return async (statement) => (await statement.query.execute(db)).rows;
}

export interface Fetched extends Omit<FetchRow, "ids" | "lost"> {
  readonly token: string;
  readonly ids: readonly string[];
  readonly lost: readonly { id: string; attempts: number; dead: boolean }[];
}

/** One fetch; `token` to repeat an earlier one. */
export async function fetchRows(
  engine: TestEngine,
  options: {
    readonly pipeline?: string;
    readonly token?: string;
    readonly accepted?: readonly { id: string; token: string }[];
    readonly scheduled?: boolean;
    readonly run?: Run;
  } = {},
): Promise<Fetched> {
  const { pipeline = "things", token = crypto.randomUUID(), accepted = [], scheduled = false } = options;
  const run = options.run ?? engine.run;
  const [row] = await run(
    fetchSql(scopeOf(engine.registry, engine.registry.get(pipeline)), { token, accepted, scheduled }),
  );
  return { ...row!, token, ids: JSON.parse(row!.ids), lost: JSON.parse(row!.lost) };
}

export interface Claimed {
  readonly id: string;
  readonly token: string;
  readonly seen: string | null;
  readonly state: string | null;
  readonly attempts: number;
  readonly result: "ours" | "alone" | "stale";
  readonly row: Readonly<Record<string, unknown>>;
}

export async function claimRows(
  engine: TestEngine,
  keys: readonly (Omit<ClaimKey, "next"> & { readonly next?: string })[],
  options: {
    readonly pipeline?: string;
    readonly alone?: boolean;
    readonly skipLocked?: boolean;
    readonly run?: Run;
  } = {},
): Promise<Claimed[]> {
  const full = keys.map((k) => ({ next: crypto.randomUUID(), ...k }));
  const run = options.run ?? engine.run;
  const pipeline = engine.registry.get(options.pipeline ?? "things");
  const rows = await run(
    claimSql(pipeline, full, "test worker", { alone: options.alone ?? false, skipLocked: options.skipLocked ?? false }),
  );
  return full.map((key) => {
    const row = rows.find((r) => r.millrace_token === key.next)!;
    return {
      id: key.id,
      token: key.next,
      seen: row.millrace_seen_due,
      state: row.millrace_state,
      attempts: row.millrace_attempts ?? 0,
      result: row.millrace_result,
      row,
    };
  });
}

/** Fetches and claims everything that is due. */
export async function takeRows(engine: TestEngine, pipeline = "things"): Promise<Claimed[]> {
  const { ids, token } = await fetchRows(engine, { pipeline });
  return claimRows(
    engine,
    ids.map((id) => ({ id, token })),
    { pipeline, alone: true },
  );
}

/** An answer of a pass over a claimed row. */
export const answer = (claimed: Claimed, changes: Partial<ApplyItem> = {}): ApplyItem => ({
  id: claimed.id,
  token: claimed.token,
  seen: claimed.seen,
  set: {},
  nows: [],
  delete: false,
  due: 15,
  due_by_default: true,
  ...changes,
});

export async function applyRows(
  engine: TestEngine,
  items: readonly ApplyItem[],
  options: { readonly pipeline?: string; readonly inserts?: readonly InsertGroup[]; readonly run?: Run } = {},
): Promise<readonly ApplyRow[]> {
  const run = options.run ?? engine.run;
  const scope = scopeOf(engine.registry, engine.registry.get(options.pipeline ?? "things"));
  return run(applySql(scope, items, { inserts: options.inserts ?? [] }));
}

/** Resolves when some backend of the test's database waits for a lock. */
export async function untilBlocked(engine: TestEngine): Promise<void> {
  await until(
    async () =>
      (
        await engine.admin(
          "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
        )
      ).length > 0,
    { what: "a statement that waits for a lock" },
  );
}
