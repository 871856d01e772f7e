// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { sql } from "../test-files.ts";

const apply = sql("apply-related", "apply-contention", "end-related");
const lost = sql("apply-lost");
const touched = "lib/sql/touched.ts";
const answers = "lib/sql/apply.ts";

/** What an answer writes to related rows, and when it is contention. */
export const mutations: readonly Mutation[] = [
  {
    file: answers,
    remove: " and l.held))`",
    by: "))`",
    tests: lost,
    guard: "every related row still carries the token",
  },
  {
    file: answers,
    remove: "sql.join([sql`true`, ...lost, ...come], sql` and `)",
    by: "sql.join([sql`true`, ...lost], sql` and `)",
    tests: apply,
    guard: "no child is missed that has come meanwhile",
  },
  {
    file: answers,
    remove: "lock.where === null ? sql`true` : common(sql.raw(lock.where.aliased))",
    by: "sql`true`",
    tests: apply,
    guard: "a child that the state does not want does not matter",
  },
  {
    file: answers,
    remove: "deletes ? sql`for update` : sql`for no key update`",
    by: "sql`for no key update`",
    tests: apply,
    guard: "a deletion takes its lock at once, and does not deadlock with an upgrade",
  },
  {
    file: answers,
    remove: 'case when ${readyAny(p, "t")} then t.lock_owner end',
    by: "null",
    tests: apply,
    guard: "a row that is given back keeps its owner",
  },
  {
    file: answers,
    remove: "attempts = greatest(i.attempts - 1, 0), resets = i.resets + 1, last_error = 'contention'",
    by: "last_error = 'contention'",
    tests: apply,
    guard: "contention is no attempt",
  },
  {
    file: answers,
    remove: "last_error = null, prev_lock_expired = false, related = null",
    by: "last_error = null, prev_lock_expired = false",
    tests: apply,
    guard: "an accepted answer clears the item's list",
  },
  {
    file: touched,
    remove: "case when ok.id is null or r.set is null then '{}'::jsonb else r.set end",
    by: "coalesce(r.set, '{}'::jsonb)",
    tests: apply,
    guard: "related rows are patched by accepted answers only",
  },
  {
    file: touched,
    remove: "(t.lock_token = r.token or exists (select 1 from main m",
    by: "(true or exists (select 1 from main m",
    also: [{ remove: "(r.ask or ${held})", by: "true" }],
    tests: apply,
    guard: "only rows under our token are unlocked",
  },
  {
    file: touched,
    remove:
      " or exists (select 1 from main m where m.id = r.item and m.token = r.token) and ${ours ?? sql`false`}${letGo})",
    by: "${letGo})",
    tests: apply,
    guard: "what an attempt that died had locked is freed",
  },
  {
    file: touched,
    remove: " or ${waitsNoMore} and ${reserved}`",
    by: "`",
    tests: apply,
    guard: "reserved children are let go when the parent waits no more",
  },
  {
    file: touched,
    remove: " and m.token = r.token and not m.keep)`",
    by: " and m.token = r.token)`",
    tests: apply,
    guard: "reserved children stay reserved while the parent waits",
  },
  {
    file: touched,
    remove: "? sql`ok.id is not null`",
    by: "? sql`true`",
    tests: lost,
    guard: "reserved children stay reserved when the parent's answer was not accepted",
  },
  {
    file: touched,
    remove: "from ${l} r join ok on ok.id = r.item and ok.token = r.token\n  where r.ask",
    by: "from ${l} r\n  where r.ask",
    tests: apply,
    guard: "only accepted answers ask",
  },
];
