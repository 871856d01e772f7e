// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { sql } from "../test-files.ts";

const file = "lib/sql/renew.ts";
const tests = sql("renew");

export const mutations: readonly Mutation[] = [
  {
    file,
    remove: "where t.id = w.id and t.lock_token = w.token for no key update",
    by: "where t.id = w.id for no key update",
    tests,
    guard: "the row carries the token",
  },
  {
    file,
    remove: "t.lock_token = w.token for no key update) l",
    by: "t.lock_token = w.token) l",
    tests,
    guard: "the token is compared under the row's lock",
  },
  {
    file,
    remove: "and i.lock_token = h.token and i.state = 'processing' for no key update",
    by: "and i.state = 'processing' for no key update",
    tests,
    guard: "the item carries the token",
  },
  {
    file,
    remove: "and i.lock_token = h.token and i.state = 'processing' for no key update",
    by: "and i.lock_token = h.token for no key update",
    tests,
    guard: "the item is in process",
  },
  {
    file,
    remove: "i.state = 'processing' for no key update) l",
    by: "i.state = 'processing') l",
    tests,
    guard: "the item is looked at under its lock",
  },
  {
    file,
    remove: "where i.item_id = h.id and i.pipeline = ${text(p.name)} and",
    by: "where i.item_id = h.id and",
    tests,
    guard: "the item is the pipeline's own",
  },
  {
    file,
    remove: "sql`least(${sql.lit(leaseSeconds)}::float8, h.left)`",
    by: "sql`${sql.lit(leaseSeconds)}::float8`",
    tests,
    guard: "nobody is alive beyond the end of its function",
  },
  {
    file,
    remove: "least(${seconds(lockTimeoutSeconds)}, make_interval(secs => ${lease} + ${sql.lit(heartbeatTickSeconds)}))",
    by: "${seconds(lockTimeoutSeconds)}",
    tests,
    guard: "nor is its lock",
  },
  {
    file,
    remove: "least(${seconds(lockTimeoutSeconds)}, make_interval(secs => ${lease} + ${sql.lit(heartbeatTickSeconds)}))",
    by: "make_interval(secs => ${lease} + ${sql.lit(heartbeatTickSeconds)})",
    tests,
    guard: "a lock lasts no longer than its timeout",
  },
  {
    file,
    remove: "left join kept h on h.id = w.id and h.token = w.token",
    by: "left join kept h on h.id = w.id",
    tests,
    guard: "answers are joined by token",
  },
  {
    file,
    remove: "t.id = r.id and t.lock_token = r.token for no key update skip locked",
    by: "t.id = r.id for no key update skip locked",
    also: [{ remove: "where t.id = r.id and t.lock_token = r.token)`", by: "where t.id = r.id)`" }],
    tests: sql("renew-related"),
    guard: "a related row carries the token",
  },
  {
    file,
    remove: "t.lock_token = r.token for no key update skip locked",
    by: "t.lock_token = r.token for no key update",
    tests: sql("renew-related"),
    guard: "a locked related row does not hold up a renewal",
  },
  {
    file,
    remove: "from ${l} r join kept h on h.id = r.item and h.token = r.token where",
    by: "from ${l} r join w h on h.id = r.item and h.token = r.token where",
    tests: sql("renew-related"),
    guard: "only related rows of what is renewed are extended",
  },
];
