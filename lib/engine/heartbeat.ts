import type { Registry } from "../define/registry.ts";
import { type HeartbeatRow, heartbeatSql, shortestTick } from "../sql/heartbeat.ts";
import { sweepSql } from "../sql/sweep.ts";
import { hintBody, sendHints, sendWakeup } from "./hint.ts";
import type { Ports } from "./ports.ts";

/** A heartbeater ticks for this long while anything is in flight; the schedule starts the next. */
const LOOP_MS = 60_000;
const SWEEP_SECONDS = 120;
const SCAN_SECONDS = 3_600;
/** A heartbeater that has not been heard of for this many ticks is taken for gone. */
export const SILENT_TICKS = 2;
/** One tick with its messages may take this long. */
const ROUND_MS = 10_000;

/**
 * Keeps the locks of items in flight alive, sends lost messages again, sweeps now and then. Ends when nothing is in
 * flight, or after a minute: then a fetch looks, once it must have been missed, and starts the next where no schedule has.
 * Two at once are harmless.
 */
export async function heartbeatLoop(registry: Registry, ports: Ports): Promise<void> {
  const ticks = registry.pipelines.map((p) => p.options.heartbeatTickSeconds);
  const tick = shortestTick(registry) * 1000;
  const until = ports.clock.now() + LOOP_MS;
  for (;;) {
    const from = ports.clock.now();
    const inFlight = await heartbeatOnce(registry, ports);
    if (inFlight.length === 0) return;
    const next = from + tick;
    if (next >= until || ports.timeLeft() < tick + ROUND_MS) {
      const delaySeconds = Math.ceil(SILENT_TICKS * Math.max(...ticks)) + 1;
      return ports.hints.send(inFlight.map((pipeline) => ({ body: hintBody({ pipeline }), delaySeconds })));
    }
    await ports.clock.wait(Math.max(0, next - ports.clock.now()));
  }
}

/** One tick. Answers the pipelines that have anything in flight; all, if that is not known. */
export async function heartbeatOnce(registry: Registry, ports: Ports): Promise<readonly string[]> {
  try {
    const { rows } = await ports.database.run(heartbeatSql(registry), { patient: true, timeoutSeconds: 20 });
    for (const row of rows) await resend(row, ports);
    for (const row of rows) report(row, ports);
    for (const row of rows) await hintTakeable(row, ports);
    await sweepIfDue(registry, rows[0], ports);
    return rows.filter((r) => r.in_flight > 0).map((r) => r.pipeline);
  } catch (cause) {
    ports.events.emit("heartbeat.failed", { error: String(cause) });
    return registry.pipelines.map((p) => p.name);
  }
}

async function resend(row: HeartbeatRow, { items, events }: Ports): Promise<void> {
  const keys = JSON.parse(row.resend) as { id: string; token: string }[];
  if (keys.length === 0) return;
  try {
    await items.send(keys.map(({ id, token }) => ({ pipeline: row.pipeline, id, token })));
    events.emit("items.resent", { pipeline: row.pipeline, count: keys.length });
  } catch (cause) {
    // one pipeline's queue must not cost the others their heartbeat
    events.emit("heartbeat.failed", { error: String(cause) });
  }
}

/** A row that nobody keeps alive is fetched when its lock ends, not at the next tick after that. */
async function hintTakeable({ pipeline, takeable }: HeartbeatRow, ports: Ports): Promise<void> {
  for (const inSeconds of JSON.parse(takeable) as number[])
    await (inSeconds === 0 ? sendHints(ports.hints, [pipeline]) : sendWakeup(ports, pipeline, inSeconds));
}

function report(row: HeartbeatRow, { events }: Ports): void {
  const { pipeline, watched, extended, late, lost } = row;
  if (extended > 0 || late > 0 || lost > 0) events.emit("locks.extended", { pipeline, watched, extended, late, lost });
}

async function sweepIfDue(registry: Registry, row: HeartbeatRow | undefined, ports: Ports): Promise<void> {
  const scan = row?.scan_age == null || row.scan_age >= SCAN_SECONDS;
  if (!scan && row?.sweep_age != null && row.sweep_age < SWEEP_SECONDS) return;
  // what the first run unlocks may leave related locks dead: they must not wait for the next sweep
  if ((await sweep(registry, scan, ports)) > 0) await sweep(registry, false, ports);
}

/** Answers the items whose related rows are still to be freed. */
async function sweep(registry: Registry, scan: boolean, ports: Ports): Promise<number> {
  const { rows } = await ports.database.run(sweepSql(registry, scan), { patient: true });
  for (const { table, unlocked, ended, deleted } of rows)
    if (unlocked > 0 || ended > 0 || deleted > 0) ports.events.emit("locks.swept", { table, unlocked, ended, deleted });
  const freed = rows.filter((r) => r.unlocked > 0).map((r) => r.table);
  const waiting = freed.flatMap((t) => [...registry.of(t), ...registry.locksOn(t).map((use) => use.pipeline)]);
  await sendHints(ports.hints, [...new Set(waiting.map((p) => p.name))]);
  return rows[0]?.left ?? 0;
}
