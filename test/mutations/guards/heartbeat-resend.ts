// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { sql } from "../test-files.ts";

const file = "lib/sql/heartbeat.ts";
const resending = sql("heartbeat-resend");

/** A message that is sent again, and related locks that are kept alive. */
export const mutations: readonly Mutation[] = [
  {
    file,
    remove: "where h.alive and h.ours and h.state = 'queued' and (",
    by: "where h.alive and h.state = 'queued' and (",
    tests: resending,
    guard: "the message of a lost row is not sent again",
  },
  {
    file,
    remove: "where h.alive and h.ours and h.state = 'queued' and (",
    by: "where h.ours and h.state = 'queued' and (",
    tests: resending,
    guard: "nor that of an item whose time is over",
  },
  {
    file,
    remove: "h.queued_at < now() - make_interval(secs => ${int(FORGOTTEN_SECONDS)}) and (",
    by: "(",
    tests: resending,
    guard: "half a minute is waited for a message",
  },
  {
    file,
    remove: "o.state = 'processing' and o.alive) < ${int(p.options.workers)}",
    by: "o.state = 'processing' and o.alive) < 1000",
    tests: resending,
    guard: "no message is sent again while all workers are busy with others in order",
  },
  {
    file,
    remove: "o.state = 'processing' and o.alive) < ${int(p.options.workers)}",
    by: "o.state = 'processing' and o.alive) < 1",
    tests: resending,
    guard: "a lost message is sent again beside a long pass",
  },
  {
    file,
    remove: "where o.state = 'processing' and o.alive)",
    by: "where o.state = 'processing')",
    tests: resending,
    guard: "a dead worker does not count as processing",
  },
  {
    file,
    remove: "h.queued_at < now() - make_interval(secs => ${int(RESEND_SECONDS)}) and exists",
    by: "exists",
    tests: resending,
    guard: "an overtaken item is sent at most every half a minute",
  },
  {
    file,
    remove: "o.queued_at > h.queued_at + make_interval(secs => ${int(OVERTAKEN_SECONDS)})",
    by: "o.queued_at > h.queued_at",
    tests: resending,
    guard: "overtaken by a few seconds is not overtaken",
  },
  {
    file,
    remove: "or h.queued_at < now() - make_interval(secs => ${int(RESEND_SECONDS)}) and exists (",
    by: "or false and exists (",
    tests: resending,
    guard: "an overtaken item is sent again",
  },
  {
    file,
    remove: " and i.lock_token = r.token and i.state = 'queued' for no key update skip locked",
    by: " for no key update skip locked",
    also: [{ remove: " and i.lock_token = a.lock_token" }],
    tests: resending,
    guard: "an item that was claimed since the snapshot is not sent again",
  },
  {
    file,
    remove: "i.state = 'queued' for no key update skip locked) l",
    by: "i.state = 'queued' for no key update) l",
    tests: resending,
    guard: "a locked item is left for the next tick, without waiting",
  },
  {
    file,
    remove: "update millrace.items i set queued_at = now() from again a",
    by: "update millrace.items i set queued_at = i.queued_at from again a",
    tests: resending,
    guard: "a message that was sent again has time to arrive",
  },
  {
    file,
    remove: "where h.alive and h.ours and h.state = 'processing'",
    by: "where h.ours and h.state = 'processing'",
    tests: sql("renew-related"),
    guard: "a crashed worker's related locks are not kept alive",
  },
  {
    file,
    remove: "where h.alive and h.ours and h.state = 'processing'",
    by: "where h.alive and h.state = 'processing'",
    tests: sql("renew-related"),
    guard: "nor are those of a lost main row",
  },
  {
    file,
    remove: "where h.alive and h.ours and h.state = 'processing'",
    by: "where h.alive and h.ours",
    tests: sql("renew-related"),
    guard: "nor those of an item that is only queued",
  },
];
