/* How long a killed worker's rows wait until somebody processes them again. */

import type { LocalStack } from "../support/stack.ts";

/** A row that was being processed when its worker was killed. */
interface LostRow {
  readonly pipeline: string;
  readonly id: string;
  readonly attempts: number;
  /** Milliseconds since the epoch. */
  readonly killedAt: number;
}

export interface Kills {
  readonly rows: LostRow[];
}

/** Notes what the processes of a function, which have just been killed, had claimed and not ended. Nothing while the database is away. */
export async function noteKill(stack: LocalStack, kills: Kills, functionName: string): Promise<number> {
  const killedAt = Date.now();
  const pipeline = functionName.replace(/^worker-/, "");
  const rows = await stack
    .sql(
      `select item_id as id, attempts from millrace.items
       where pipeline = $1 and state = 'processing' and finished_at is null and claimed_at <= to_timestamp($2 / 1000.0) and lock_token is not null`,
      [pipeline, killedAt],
    )
    .catch(() => []);
  kills.rows.push(...rows.map((row) => ({ pipeline, id: row.id, attempts: row.attempts, killedAt })));
  return rows.length;
}

/**
 * Seconds from each kill to the row's next claim, as the workers' logs tell them. A row whose last apply was accepted all
 * the same begins to count from one again, and is left out, as is one that nobody needed to claim again.
 */
export function recoveries(stack: LocalStack, kills: Kills): number[] {
  const claims = new Map<string, { at: number; attempt: number }[]>();
  for (const name of Object.keys(stack.local.functions).filter((each) => each.startsWith("worker-")))
    for (const line of stack.logs(name)) {
      if (line.message !== "item.claimed") continue;
      const key = `${line.pipeline} ${line.id}`;
      const list = claims.get(key) ?? [];
      list.push({ at: Date.parse(line.timestamp), attempt: line.attempt });
      claims.set(key, list);
    }
  return kills.rows.flatMap(({ pipeline, id, attempts, killedAt }) => {
    const later = (claims.get(`${pipeline} ${id}`) ?? []).filter(({ at }) => at > killedAt).sort((a, b) => a.at - b.at);
    const next = later[0];
    return next !== undefined && next.attempt > attempts ? [(next.at - killedAt) / 1000] : [];
  });
}

/** The value that so many of a hundred do not exceed; 0 of nothing. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)] ?? 0;
}

/** As "12 rows, p50 3.1 s, p95 4.0 s, most 4.2 s". */
export function timesText(seconds: readonly number[], what: string): string {
  if (seconds.length === 0) return `0 ${what}`;
  const of = (percent: number) => `${percentile(seconds, percent).toFixed(1)} s`;
  return `${seconds.length} ${what}, p50 ${of(50)}, p95 ${of(95)}, most ${of(100)}`;
}
