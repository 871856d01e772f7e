// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { sql } from "../test-files.ts";

const file = "lib/sql/enqueue.ts";
const tests = sql("enqueue");

export const mutations: readonly Mutation[] = [
  {
    file,
    remove: "t.id = n.id and t.lock_token = n.token for no key update",
    by: "t.id = n.id for no key update",
    tests,
    guard: "a refused row is held under the fetch's token",
  },
  {
    file,
    remove: "and i.lock_token = u.token and i.state = 'locked' for no key update",
    by: "and i.lock_token = u.token for no key update",
    tests,
    guard: "a refused row whose item is queued stays",
  },
  {
    file,
    remove: "where i.item_id = u.id and i.pipeline = ${sql.lit(p.name)} and",
    by: "where i.item_id = u.id and",
    tests,
    guard: "the item is the pipeline's own",
  },
  {
    file,
    remove: "and i.lock_token = u.token and i.state = 'locked' for no key update",
    by: "for no key update",
    also: [{ remove: " and i.lock_token = k.token and i.state = 'locked'" }],
    tests,
    guard: "an item that was claimed meanwhile is left alone",
  },
  {
    file,
    remove: "where not k.accepted and t.id = k.id",
    by: "where t.id = k.id",
    tests,
    guard: "an accepted row keeps its lock",
  },
  {
    file,
    remove: " where exists (select 1 from unlocked)",
    tests,
    guard: "a wake-up is armed for refusals only",
  },
  {
    file,
    remove: "queued_at = case when k.accepted then now() end, ",
    tests,
    guard: "the time of queueing is noted",
  },
  {
    file,
    remove: "finished_at = case when k.accepted then null::timestamptz else now() end",
    by: "finished_at = null",
    tests,
    guard: "a refused item ends",
  },
  {
    file,
    remove: "alive_until = case when k.accepted then now() + ${seconds(queueWaitSeconds(p.options))} end",
    by: "alive_until = i.alive_until",
    tests,
    guard: "a queued item may wait for long",
  },
];
