import { setTimeout as pause } from "node:timers/promises";
import type pg from "pg";

interface Waiting {
  readonly pid: number;
  readonly blockers: readonly number[];
  readonly what: string;
}

const LOOK_EVERY_MS = 30;

/** Looks for circles of waiting statements, more often than PostgreSQL, and names them; until the signal. */
export async function watchDeadlocks(client: pg.Client, stop: AbortSignal): Promise<readonly string[]> {
  const circles = new Map<string, string>();
  while (!stop.aborted) {
    const { rows } = await client.query<Waiting>(
      `select a.pid, pg_blocking_pids(a.pid) as blockers, format('%s waits for %s%s', coalesce(substring(a.query from 'millrace:([^*]*) '), left(a.query, 120)), a.wait_event,
          (select string_agg(' ' || c.relname || coalesce(' (' || l.page || ',' || l.tuple || ')', ''), '') from pg_locks l join pg_class c on c.oid = l.relation where l.pid = a.pid and l.locktype = 'tuple')) as what
       from pg_stat_activity a where a.datname = current_database() and a.wait_event_type = 'Lock'`,
    );
    const byPid = new Map(rows.map((row) => [row.pid, row]));
    for (const row of rows) {
      const circle = circleOf(row, byPid);
      if (circle.length > 0)
        circles.set(
          circle
            .map((w) => w.pid)
            .sort()
            .join(" "),
          circle.map((w) => w.what).join(" | "),
        );
    }
    await pause(LOOK_EVERY_MS);
  }
  return [...circles.values()];
}

/** The way from a waiting statement back to itself; empty = none. */
function circleOf(from: Waiting, byPid: ReadonlyMap<number, Waiting>): readonly Waiting[] {
  const seen = new Set<number>();
  const way = (at: Waiting): readonly Waiting[] | undefined => {
    for (const pid of at.blockers) {
      if (pid === from.pid) return [at];
      const next = byPid.get(pid);
      if (next === undefined || seen.has(pid)) continue;
      seen.add(pid);
      const rest = way(next);
      if (rest !== undefined) return [at, ...rest];
    }
    return undefined;
  };
  return way(from) ?? [];
}
