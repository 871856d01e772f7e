// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { sql } from "../test-files.ts";

const fetch = "lib/sql/fetch.ts";
const lock = "lib/sql/lock-related.ts";
const wanted = "lib/sql/wanted.ts";

/** What a fetch writes, and what is looked at again before related rows are locked. */
export const mutations: readonly Mutation[] = [
  {
    file: fetch,
    remove: "prev_lock_expired = true, last_error = 'worker lost', resets",
    by: "last_error = 'worker lost', resets",
    tests: sql("fetch-lost"),
    guard: "a row that backs off for lost workers is a suspect",
  },
  {
    file: fetch,
    remove: "finished_at = null, alive_until = excluded.alive_until",
    by: "alive_until = excluded.alive_until",
    tests: sql("fetch"),
    guard: "a row that is fetched again is in flight again",
  },
  {
    file: fetch,
    remove: "lock_owner = ${name}, lock_expires_at = now() + ${lock}\n",
    by: "lock_owner = ${name}, lock_expires_at = now()\n",
    tests: sql("fetch"),
    guard: "a fetch locks for as long as a lock lasts",
  },
  {
    file: fetch,
    remove: "and (select n from room) > 0 order by t.due_at, t.id limit 1),",
    by: "and (select n from room) > 0 order by t.due_at desc limit 1),",
    tests: sql("fetch-wakeup"),
    guard: "the earliest of the rows that are not due yet is armed",
  },
  {
    file: fetch,
    remove: "limit ${int(Math.min(limit, MOST_ROWS))}) s",
    by: "limit ${int(limit)}) s",
    tests: sql("fetch"),
    guard: "a fetch takes no more than it can send long before the locks expire",
  },
  {
    file: "lib/sql/enqueue.ts",
    remove: "lock_token = case when k.accepted then i.lock_token end,",
    tests: sql("enqueue"),
    guard: "a refused item forgets its token",
  },
  {
    file: lock,
    remove: " and i.lock_token = m.millrace_held for no key update) l",
    by: " for no key update) l",
    tests: sql("lock-related"),
    guard: "an item that has lost the row locks nothing",
  },
  {
    file: lock,
    remove: " and i.lock_token = m.millrace_held for no key update) l",
    by: " and i.lock_token = m.millrace_held) l",
    tests: sql("lock-related"),
    guard: "the item is looked at under its lock",
  },
  {
    file: lock,
    remove: " when ${any((w) => w.gone(sql`m.id`))} then 'gone'",
    tests: sql("lock-shared"),
    guard: "a row that does not exist is not waited for",
  },
  {
    file: lock,
    remove: " when ${any((w) => w.lacking(sql`m.id`))} then 'contention'",
    tests: sql("lock-related"),
    guard: "a row that did not get all that it wants has none",
  },
  {
    file: lock,
    remove: "where v.result = 'locked' and i.item_id = k.item_id",
    by: "where i.item_id = k.item_id",
    tests: sql("lock-related"),
    guard: "only what is locked stands on the item's list",
  },
  {
    file: lock,
    remove: "jsonb_each(coalesce(i.related, '{}')) o",
    by: "jsonb_each('{}'::jsonb) o",
    tests: sql("apply-related", "apply-contention", "end-related"),
    guard: "what an attempt that died had locked stays on the list",
  },
  {
    file: wanted,
    remove: "where t.id = f.id and ${child} and ${whereOf(lock)}\n",
    by: "where t.id = f.id and ${whereOf(lock)}\n",
    tests: sql("lock-related"),
    guard: "a child that has left its parent since the snapshot is not locked",
  },
  {
    file: wanted,
    remove: "where t.id = f.id and ${child} and ${whereOf(lock)}\n",
    by: "where t.id = f.id and ${child}\n",
    tests: sql("lock-related"),
    guard: "a child that is not wanted any more since the snapshot is not locked",
  },
  {
    file: wanted,
    remove: "for no key update skip locked) l\n  where (select count(*) from ${last}) >= 0`;",
    by: "for no key update) l\n  where (select count(*) from ${last}) >= 0`;",
    tests: sql("lock-related"),
    guard: "a related row that somebody has locked is not waited for",
  },
  {
    file: wanted,
    remove: "for no key update skip locked) l\n  where (select count(*) from ${last}) >= 0 limit 1`;",
    by: "for no key update skip locked) l\n  where (select count(*) from ${last}) >= 0`;",
    tests: sql("lock-shared"),
    guard: "a pick takes one row",
  },
  {
    file: wanted,
    remove: "lock_expires_at = case when v.result = 'locked' then v.lock_expires_at end",
    by: "lock_expires_at = case when v.result = 'locked' then now() end",
    tests: sql("lock-related"),
    guard: "a related lock lasts as long as the main row's",
  },
];
