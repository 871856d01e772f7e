// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { sql, writers } from "../test-files.ts";

/*
 * Guards that stand twice: a row is locked where it carries the token, and written where it carries the token. Which of
 * the two may be missing alone, and that both may not.
 */

const LOCKED = "the rows were locked by this statement where they carry the token, and nobody changes a locked row";

const holds = writers("hold", "hold-several");

export const mutations: readonly Mutation[] = [
  {
    file: "lib/sql/apply.ts",
    remove: "where t.id = ok.id and t.lock_token = ok.token and not ok.delete",
    by: "where t.id = ok.id and not ok.delete",
    tests: sql("apply-guards"),
    guard: "an answer is written under its token",
    reason: `${LOCKED}: CTE main`,
  },
  {
    file: "lib/sql/apply.ts",
    remove: "where t.id = ok.id and t.lock_token = ok.token and not ok.delete",
    by: "where t.id = ok.id and not ok.delete",
    also: [{ remove: "where t.id = w.id and t.lock_token = w.token ${lock}) l", by: "where t.id = w.id ${lock}) l" }],
    tests: sql("apply-guards"),
    guard: "an answer is written under its token, looked at twice",
  },
  {
    file: "lib/sql/apply.ts",
    remove: "where t.id = ok.id and t.lock_token = ok.token and ok.delete",
    by: "where t.id = ok.id and ok.delete",
    tests: sql("apply-guards"),
    guard: "a row is deleted under its token",
    reason: `${LOCKED}: CTE main`,
  },
  {
    file: "lib/sql/apply.ts",
    remove: "where t.id = ok.id and t.lock_token = ok.token and ok.delete",
    by: "where t.id = ok.id and ok.delete",
    also: [{ remove: "where t.id = w.id and t.lock_token = w.token ${lock}) l", by: "where t.id = w.id ${lock}) l" }],
    tests: sql("apply-guards"),
    guard: "a row is deleted under its token, looked at twice",
  },
  {
    file: "lib/sql/end.ts",
    remove: "from ends m where t.id = m.id and t.lock_token = m.token returning t.id, t.due_at",
    by: "from ends m where t.id = m.id returning t.id, t.due_at",
    tests: sql("end"),
    guard: "a pass is ended under its token",
    reason: `${LOCKED}: CTE main`,
  },
  {
    file: "lib/sql/end.ts",
    remove: "from ends m where t.id = m.id and t.lock_token = m.token returning t.id, t.due_at",
    by: "from ends m where t.id = m.id returning t.id, t.due_at",
    also: [
      {
        remove: "where t.id = w.id and t.lock_token = w.token for no key update) l",
        by: "where t.id = w.id for no key update) l",
      },
    ],
    tests: sql("end"),
    guard: "a pass is ended under its token, looked at twice",
  },
  {
    file: "lib/sql/claim.ts",
    remove: "from mine m where t.id = m.id and (t.lock_token = m.token or t.lock_token = m.next)",
    by: "from mine m where t.id = m.id",
    tests: [...sql("claim"), ...sql("claim-race")],
    guard: "a row is claimed under its token",
    reason: `${LOCKED}: CTE held`,
  },
  {
    file: "lib/sql/claim.ts",
    remove: "from mine m where t.id = m.id and (t.lock_token = m.token or t.lock_token = m.next)",
    by: "from mine m where t.id = m.id",
    also: [
      {
        remove: "where t.id = w.id and (t.lock_token = w.token or t.lock_token = w.next) ${lock}) l)",
        by: "where t.id = w.id ${lock}) l)",
      },
    ],
    tests: [...sql("claim"), ...sql("claim-race")],
    guard: "a row is claimed under its token, looked at twice",
  },
  {
    file: "lib/sql/enqueue.ts",
    remove: "and t.id = k.id and t.lock_token = k.token returning t.id)",
    by: "and t.id = k.id returning t.id)",
    tests: sql("enqueue"),
    guard: "a refused row is freed under the fetch's token",
    reason: `${LOCKED}: CTE held`,
  },
  {
    file: "lib/sql/enqueue.ts",
    remove: "and t.id = k.id and t.lock_token = k.token returning t.id)",
    by: "and t.id = k.id returning t.id)",
    also: [
      {
        remove: "where t.id = n.id and t.lock_token = n.token for no key update) l",
        by: "where t.id = n.id for no key update) l",
      },
    ],
    tests: sql("enqueue"),
    guard: "a refused row is freed under the fetch's token, looked at twice",
  },
  {
    file: "lib/sql/renew.ts",
    remove: "from kept h where t.id = h.id and t.lock_token = h.token returning t.id)",
    by: "from kept h where t.id = h.id returning t.id)",
    tests: sql("renew"),
    guard: "a lock is renewed under its token",
    reason: `${LOCKED}: CTE held`,
  },
  {
    file: "lib/sql/renew.ts",
    remove: "from kept h where t.id = h.id and t.lock_token = h.token returning t.id)",
    by: "from kept h where t.id = h.id returning t.id)",
    also: [
      {
        remove: "where t.id = w.id and t.lock_token = w.token for no key update) l",
        by: "where t.id = w.id for no key update) l",
      },
    ],
    tests: sql("renew"),
    guard: "a lock is renewed under its token, looked at twice",
  },
  {
    file: "lib/sql/renew.ts",
    remove: "and i.pipeline = h.pipeline and i.lock_token = h.token returning i.item_id)",
    by: "and i.pipeline = h.pipeline returning i.item_id)",
    tests: sql("renew"),
    guard: "a lease is renewed under the item's token",
    reason: `${LOCKED}: CTE kept, of the items`,
  },
  {
    file: "lib/sql/renew.ts",
    remove: "and i.pipeline = h.pipeline and i.lock_token = h.token returning i.item_id)",
    by: "and i.pipeline = h.pipeline returning i.item_id)",
    also: [
      { remove: "and i.lock_token = h.token and i.state = 'processing' for no key update", by: "for no key update" },
    ],
    tests: sql("renew"),
    guard: "a lease is renewed under the item's token, looked at twice",
  },
  {
    file: "lib/sql/write.ts",
    remove: "from k where t.id = k.id and t.lock_token = k.token returning t.*)",
    by: "from k where t.id = k.id returning t.*)",
    tests: holds,
    guard: "a writer writes what it holds under its token",
    reason: `${LOCKED}: CTE locked, of which k takes the rows with the older token`,
  },
  {
    file: "lib/sql/write.ts",
    remove: "from k where t.id = k.id and t.lock_token = k.token returning t.*)",
    by: "from k where t.id = k.id returning t.*)",
    also: [
      { remove: "t.lock_token in (w.token, w.next) for no key update", by: "true for no key update" },
      { remove: " and l.held_token = l.token)", by: ")" },
    ],
    tests: holds,
    guard: "a writer writes what it holds under its token, looked at twice",
  },
  {
    file: "lib/sql/write.ts",
    remove: "where t.id = l.id and t.lock_token = l.token and ${TOLD}",
    by: "where t.id = l.id and ${TOLD}",
    tests: holds,
    guard: "a writer deletes what it holds under its token",
    reason: `${LOCKED}: CTE locked`,
  },
  {
    file: "lib/sql/write.ts",
    remove: "where t.id = l.id and t.lock_token = l.token and ${TOLD}",
    by: "where t.id = l.id and ${TOLD}",
    also: [
      {
        remove: "where t.id = w.id and t.lock_token = w.token for update) l)",
        by: "where t.id = w.id for update) l)",
      },
    ],
    tests: holds,
    guard: "a writer deletes what it holds under its token, looked at twice",
  },
  {
    file: "lib/sql/write.ts",
    remove: "from locked l where t.id = l.id and t.lock_token = l.token returning t.id`",
    by: "from locked l where t.id = l.id returning t.id`",
    tests: holds,
    guard: "a writer gives back what is still its own",
    reason: `${LOCKED}: CTE locked`,
  },
  {
    file: "lib/sql/write.ts",
    remove: "from locked l where t.id = l.id and t.lock_token = l.token returning t.id`",
    by: "from locked l where t.id = l.id returning t.id`",
    also: [
      {
        remove: "where t.id = w.id and t.lock_token = w.token for no key update) l)",
        by: "where t.id = w.id for no key update) l)",
      },
    ],
    tests: holds,
    guard: "a writer gives back what is still its own, looked at twice",
  },
  {
    file: "lib/sql/hold.ts",
    remove: "and i.pipeline = m.pipeline and i.lock_token = m.taken)",
    by: "and i.pipeline = m.pipeline)",
    tests: holds,
    guard: "only the item of the lock that is taken away ends",
    reason: "what is written to an item asks for the same token: `lost` in free.ts",
  },
  {
    file: "lib/sql/hold.ts",
    remove: "and i.pipeline = m.pipeline and i.lock_token = m.taken)",
    by: "and i.pipeline = m.pipeline)",
    also: [
      {
        file: "lib/sql/free.ts",
        remove: "i.finished_at is null and i.lock_token = ${taken}",
        by: "i.finished_at is null",
      },
    ],
    tests: writers("hold", "hold-several", "update"),
    guard: "only the item of the lock that is taken away ends, looked at twice",
  },
  {
    file: "lib/sql/fetch.ts",
    remove: "n.attempts from taken n order by n.id",
    by: "n.attempts from taken n",
    tests: sql("fetch"),
    guard: "items are noted in id order",
    reason:
      "those that exist were locked in id order by CTE touched, and those that do not are made by nobody else: a fetcher is alone, and a writer notes one",
  },
];
