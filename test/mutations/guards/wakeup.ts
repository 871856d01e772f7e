// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { sql } from "../test-files.ts";

const file = "lib/sql/wakeup.ts";
const tests = sql("fetch-wakeup");

export const mutations: readonly Mutation[] = [
  {
    file,
    remove: "sql`s.at <= now() + make_interval(secs => ${sql.lit(RESEND_WITHIN_SECONDS)})`",
    by: "sql.lit(true)",
    tests,
    guard: "a far wake-up is not sent every minute",
  },
  {
    file,
    remove: "sql`s.at <= now() + make_interval(secs => ${sql.lit(RESEND_WITHIN_SECONDS)})`",
    by: "sql.lit(false)",
    tests,
    guard: "a near wake-up that was lost is sent again by the schedule",
  },
  {
    file,
    remove: "l.wake_at is null or l.wake_at <= now() + interval '2 s' or l.wake_at > ${capped}",
    by: "true",
    tests,
    guard: "a wake-up is armed once",
  },
  {
    file,
    remove: " or l.wake_at > ${capped}",
    tests,
    guard: "an earlier row is armed again",
  },
  {
    file,
    remove: "l.wake_at <= now() + interval '2 s' or",
    tests,
    guard: "a wake-up that was lost does not hold the next back",
  },
  {
    file,
    remove: "l.wake_at <= now() + interval '2 s' or",
    by: "l.wake_at <= now() or",
    tests,
    guard: "nor one that fires just now",
  },
  {
    file,
    remove: "sql`least(s.at, now() + make_interval(secs => ${sql.lit(MOST_DELAY_SECONDS)}))`",
    by: "sql`s.at`",
    tests,
    guard: "armed for 15 minutes at most",
  },
  {
    file,
    remove: "for no key update skip locked) l on true",
    by: "for no key update) l on true",
    tests,
    guard: "never waits for the wake-up's row",
  },
  {
    file,
    remove: " and s.at is not null for no key update",
    by: " for no key update",
    tests,
    guard: "without a row to wake up for, the wake-up's row is left alone",
  },
  {
    file,
    remove: "where k.pipeline = ${text(pipeline)} and",
    by: "where",
    tests,
    guard: "a wake-up is the pipeline's own",
  },
];
