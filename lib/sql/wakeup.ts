import { sql } from "kysely";
import { type Sql, text } from "./parts.ts";

/** Amazon SQS: the longest DelaySeconds of a message. A later wake-up is a chain of these. */
const MOST_DELAY_SECONDS = 900;

/** A scheduled fetch sends a wake-up again that lies no further ahead: the next scheduled fetch sees to a later one. */
const RESEND_WITHIN_SECONDS = 90;

/**
 * CTEs `waking` and `armed`: one row whose `wake_in` says in how many seconds the row that becomes due `at` needs a
 * hint, or null. A wake-up counts as armed only while it lies more than 2 s ahead: one that just fires or was lost must
 * not hold the next one back. Where the row of millrace.wakeups cannot be had at once, the hint is sent without arming:
 * a hint too many is harmless.
 */
export function armed(pipeline: string, at: Sql, scheduled = false): Sql {
  const capped = sql`least(s.at, now() + make_interval(secs => ${sql.lit(MOST_DELAY_SECONDS)}))`;
  const again = scheduled
    ? sql`s.at <= now() + make_interval(secs => ${sql.lit(RESEND_WITHIN_SECONDS)})`
    : sql.lit(false);
  return sql`waking as materialized (
  select s.at, ${capped} as wake_at, l.pipeline,
    s.at is not null and (${again} or l.wake_at is null or l.wake_at <= now() + interval '2 s' or l.wake_at > ${capped}) as send
  from (select ${at} as at) s left join lateral (
    select k.pipeline, k.wake_at from millrace.wakeups k where k.pipeline = ${text(pipeline)} and s.at is not null for no key update skip locked) l on true),
rearmed as (
  update millrace.wakeups k set wake_at = a.wake_at from waking a where a.send and k.pipeline = a.pipeline),
armed as materialized (
  select extract(epoch from a.at - now())::float8 as wake_in from waking a where a.send)`;
}
