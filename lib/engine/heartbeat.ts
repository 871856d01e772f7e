import type { Registry } from "../define/registry.ts";
import { type HeartbeatRow, heartbeatSql } from "../sql/heartbeat.ts";
import { sweepSql } from "../sql/sweep.ts";
import { sendHints } from "./hint.ts";
import type { Ports } from "./ports.ts";

/** A heartbeater ticks for this long while anything is in flight; the schedule starts the next. */
const LOOP_MS = 60_000;
const SWEEP_SECONDS = 120;
const SCAN_SECONDS = 3_600;
/** One tick with its messages may take this long. */
const ROUND_MS = 10_000;

/**
 * Keeps the locks of items in flight alive, sends lost messages again, sweeps now and then. Ends when nothing is in
 * flight, or after a minute. Two at once are harmless.
 */
export async function heartbeatLoop(registry: Registry, ports: Ports): Promise<void> {
  const tick = Math.min(...registry.pipelines.map((p) => p.options.heartbeatTickSeconds)) * 1000;
  const until = ports.clock.now() + LOOP_MS;
  for (;;) {
    const from = ports.clock.now();
    const inFlight = await heartbeatOnce(registry, ports);
    const next = from + tick;
    if (!inFlight || next >= until || ports.timeLeft() < tick + ROUND_MS) return;
    await ports.clock.wait(Math.max(0, next - ports.clock.now()));
  }
}

/** One tick. Answers whether anything is in flight. */
export async function heartbeatOnce(registry: Registry, ports: Ports): Promise<boolean> {
  try {
    const { rows } = await ports.database.run(heartbeatSql(registry), { patient: true, timeoutSeconds: 20 });
    for (const row of rows) await resend(row, ports);
    for (const row of rows) report(row, ports);
    await sendHints(
      ports.hints,
      rows.filter((r) => r.takeable).map((r) => r.pipeline),
    );
    await sweepIfDue(registry, rows[0], ports);
    return rows.some((r) => r.in_flight > 0);
  } catch (cause) {
    ports.events.emit("heartbeat.failed", { error: String(cause) });
    return true;
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

function report(row: HeartbeatRow, { events }: Ports): void {
  const { pipeline, watched, extended, late, lost } = row;
  if (extended > 0 || late > 0 || lost > 0) events.emit("locks.extended", { pipeline, watched, extended, late, lost });
}

async function sweepIfDue(registry: Registry, row: HeartbeatRow | undefined, ports: Ports): Promise<void> {
  const scan = row?.scan_age == null || row.scan_age >= SCAN_SECONDS;
  if (!scan && row?.sweep_age != null && row.sweep_age < SWEEP_SECONDS) return;
  const { rows } = await ports.database.run(sweepSql(registry, scan), { patient: true });
  for (const { table, unlocked, ended, deleted } of rows)
    if (unlocked > 0 || ended > 0 || deleted > 0) ports.events.emit("locks.swept", { table, unlocked, ended, deleted });
  const freed = rows.filter((r) => r.unlocked > 0).flatMap((r) => registry.of(r.table).map((p) => p.name));
  await sendHints(ports.hints, freed);
}
