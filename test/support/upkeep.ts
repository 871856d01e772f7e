import { expect } from "vitest";
import { enqueueSql } from "../../lib/sql/enqueue.ts";
import { type HeartbeatRow, heartbeatSql } from "../../lib/sql/heartbeat.ts";
import { renewSql } from "../../lib/sql/renew.ts";
import { type SweepRow, sweepSql } from "../../lib/sql/sweep.ts";
import type { TestEngine } from "./engine.ts";
import { type Claimed, fetchRows, type Run } from "./steps.ts";

/** After a refused send. */
export const RETRY_SECONDS = 30;

/** So many seconds from now, when the test was running; it may have taken a while to look. */
export const ahead = (seconds: number) => expect.closeTo(seconds - 1, TWO_SECONDS);
/** So many seconds ago. */
export const ago = (seconds: number) => expect.closeTo(seconds + 1, TWO_SECONDS);
/** A precision of decimal digits: less than 10^−precision ÷ 2 away. */
const TWO_SECONDS = -Math.log10(4);

export interface Key {
  readonly id: string;
  readonly token: string;
}

/** Fetches everything that is due: the keys that its messages carry. */
export async function fetchKeys(engine: TestEngine, pipeline = "things"): Promise<Key[]> {
  const { ids, token } = await fetchRows(engine, { pipeline });
  return ids.map((id) => ({ id, token }));
}

/** Fetches everything that is due, as if all messages had been accepted. */
export async function queueRows(engine: TestEngine, pipeline = "things"): Promise<Key[]> {
  const keys = await fetchKeys(engine, pipeline);
  await enqueueRows(engine, { accepted: keys, pipeline });
  return keys;
}

export async function enqueueRows(
  engine: TestEngine,
  {
    accepted = [],
    refused = [],
    pipeline = "things",
    run = engine.run,
  }: { accepted?: readonly Key[]; refused?: readonly Key[]; pipeline?: string; run?: Run },
) {
  const [row] = await run(enqueueSql(engine.registry.get(pipeline), accepted, refused, RETRY_SECONDS));
  return row!;
}

export async function renewRows(
  engine: TestEngine,
  keys: readonly (Pick<Claimed, "id" | "token"> & { readonly left?: number })[],
  run: Run = engine.run,
): Promise<boolean[]> {
  const full = keys.map(({ id, token, left = 600 }) => ({ id, token, left }));
  const rows = await run(renewSql(engine.registry.get("things"), full));
  return full.map(({ id, token }) => rows.find((r) => r.id === id && r.token === token)!.renewed);
}

export interface Heartbeat extends Omit<HeartbeatRow, "resend" | "takeable"> {
  readonly resend: readonly Key[];
  readonly takeable: readonly number[];
}

/** One heartbeat; what it says of one pipeline. */
export async function beat(engine: TestEngine, pipeline = "things", run: Run = engine.run): Promise<Heartbeat> {
  const rows = await run(heartbeatSql(engine.registry));
  const row = rows.find((r) => r.pipeline === pipeline)!;
  return { ...row, resend: JSON.parse(row.resend), takeable: JSON.parse(row.takeable) };
}

export async function sweepRows(engine: TestEngine, { scan = false, run = engine.run } = {}): Promise<SweepRow> {
  const [row] = await run(sweepSql(engine.registry, scan));
  return row!;
}

/** Times as seconds from now; null stays null. */
export async function lockOf(engine: TestEngine, id: string) {
  const [row] = await engine.query<{
    token: string | null;
    owner: string | null;
    expires: number | null;
    due: number | null;
  }>(
    `select lock_token as token, lock_owner as owner, extract(epoch from lock_expires_at - now())::float8 as expires,
      extract(epoch from due_at - now())::float8 as due from things where id = $1`,
    [id],
  );
  return row!;
}

/** What is remembered of a row; times as seconds from now, `waited` as seconds since it was queued. */
export async function itemOf(engine: TestEngine, id: string, pipeline = "things") {
  const [row] = await engine.query<{
    state: string;
    token: string | null;
    suspect: boolean;
    finished: boolean;
    alive: number | null;
    attempts: number;
    last_error: string | null;
    worker: string | null;
    waited: number | null;
  }>(
    `select state, lock_token as token, prev_lock_expired as suspect, finished_at is not null as finished, attempts, last_error, worker,
      extract(epoch from alive_until - now())::float8 as alive, extract(epoch from now() - queued_at)::float8 as waited
    from millrace.items where item_id = $1 and pipeline = $2`,
    [id, pipeline],
  );
  return row!;
}

/** Seconds until the armed wake-up; null = none is. */
export async function wakeAt(engine: TestEngine, pipeline = "things"): Promise<number | null> {
  const [row] = await engine.query<{ at: number | null }>(
    "select extract(epoch from wake_at - now())::float8 as at from millrace.wakeups where pipeline = $1",
    [pipeline],
  );
  return row!.at;
}

/** Says when a task of the upkeep was last done, in seconds ago. */
export const setUpkeep = (engine: TestEngine, task: string, secondsAgo: number) =>
  engine.query(
    `insert into millrace.upkeep values ($1, now() - make_interval(secs => $2))
     on conflict (task) do update set done_at = excluded.done_at`,
    [task, secondsAgo],
  );

/** The seconds that each held row of `things` has left. */
export const lockSeconds = async (engine: TestEngine) =>
  (
    await engine.query<{ s: number }>(
      "select round(extract(epoch from lock_expires_at - now()))::int as s from things where lock_token is not null",
    )
  ).map((r) => r.s);
