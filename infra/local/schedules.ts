/* Schedules: EventBridge Scheduler and EventBridge rules with a rate. */

import { LocalError } from "./errors.ts";
import type { AsyncInvokes } from "./lambda/async-invokes.ts";
import type { LambdaFunction } from "./lambda/lambda-function.ts";

/** A schedule and one target of it, its values resolved. */
export interface ScheduleSpec {
  readonly id: string;
  readonly arn: string;
  readonly everySeconds: number;
  /** The event; undefined: the one that a rule makes up. May hold `<aws.scheduler....>` placeholders. */
  readonly input: string | undefined;
}

/** So long after the start a schedule fires for the first time: AWS fires within the first period as well. */
const FIRST_AFTER_MS = 1000;

const UNIT_SECONDS: Readonly<Record<string, number>> = { minute: 60, hour: 3600, day: 86_400 };

/** Seconds between two firings. Throws PROPERTY_UNSUPPORTED for anything but `rate(...)`. */
export function rateSeconds(id: string, expression: string): number {
  const [, count, unit] = /^rate\((\d+) (minute|hour|day)s?\)$/.exec(expression) ?? [];
  if (count === undefined || unit === undefined) {
    const details = { id, property: "ScheduleExpression", value: expression, why: "only rate(...) is" };
    throw new LocalError("PROPERTY_UNSUPPORTED", details);
  }
  return Number(count) * UNIT_SECONDS[unit]!;
}

/**
 * Starts a schedule; `fires` is called before each event. While the function is stopped it does not fire. Answers how to
 * end it.
 */
export function startSchedule(
  spec: ScheduleSpec,
  fn: LambdaFunction,
  asyncInvokes: AsyncInvokes,
  fires: () => void,
): () => void {
  let due = Date.now() + FIRST_AFTER_MS;
  let timer: NodeJS.Timeout;
  const fire = () => {
    if (fn.state !== "stopped") {
      fires();
      asyncInvokes.send(fn, eventOf(spec, due));
    }
    due += spec.everySeconds * 1000;
    timer = setTimeout(fire, Math.max(0, due - Date.now()));
  };
  timer = setTimeout(fire, FIRST_AFTER_MS);
  return () => clearTimeout(timer);
}

function eventOf(spec: ScheduleSpec, due: number): string {
  const time = new Date(due).toISOString().replace(/\.\d+Z$/, "Z");
  if (spec.input === undefined) {
    const source = { version: "0", id: crypto.randomUUID(), "detail-type": "Scheduled Event", source: "aws.events" };
    return JSON.stringify({ ...source, time, region: "us-east-1", resources: [spec.arn], detail: {} });
  }
  return spec.input
    .replaceAll("<aws.scheduler.scheduled-time>", time)
    .replaceAll("<aws.scheduler.execution-id>", crypto.randomUUID())
    .replaceAll("<aws.scheduler.attempt-number>", "1")
    .replaceAll("<aws.scheduler.schedule-arn>", spec.arn);
}
