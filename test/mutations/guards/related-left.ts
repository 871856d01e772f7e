// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { real, sql, writers } from "../test-files.ts";

const asked = sql("apply-asked");
const left = sql("left-behind");
const two = sql("two-parents");
const answers = real("related-answers");
const overlap = writers("ending-overlap");
const touched = "lib/sql/touched.ts";

export const mutations: readonly Mutation[] = [
  {
    file: touched,
    remove: "${stays} ${alsoAsked} and",
    by: "${stays} and",
    tests: asked,
    guard: "a row that is freed and asked for is written once",
  },
  {
    file: touched,
    remove: "${wish}${unlockMine}due_at",
    by: "${wish}due_at",
    tests: asked,
    guard: "the request of a row that is freed frees it",
  },
  {
    file: touched,
    remove: "case when not ${mine} then ${sql.ref(`t.${c}`)} end",
    by: "null",
    tests: asked,
    guard: "a request leaves the locks of others alone",
  },
  {
    file: "lib/sql/request.ts",
    remove: "attempts = 0, resets = least(i.resets, 1), state",
    by: "attempts = 0, resets = 0, state",
    tests: left,
    guard: "the sweep goes on looking at a row that was asked for",
  },
  {
    file: "lib/sql/free.ts",
    remove: "sql`least(i.resets, 1)`",
    by: "sql`0`",
    tests: left,
    guard: "the sweep goes on looking at a row that a writer wrote",
  },
  {
    file: "lib/sql/end.ts",
    remove: "w.keep and l.ready as keep",
    by: "w.keep",
    tests: left,
    guard: "contention keeps no owner of a row that left",
  },
  {
    file: "lib/sql/end.ts",
    remove: "related = case when m.grown then i.related end",
    by: "related = null",
    tests: left,
    guard: "an ending does not forget rows that were locked since its snapshot",
  },
  {
    file: "lib/sql/fetch.ts",
    remove: ", resets = greatest(i.resets, 1)",
    tests: left,
    guard: "the sweep looks at the related rows of an item that backs off",
  },
  {
    file: "lib/sql/sweep.ts",
    remove: "select i.item_id, i.pipeline, null, i.related, i.resets",
    by: "select i.item_id, i.pipeline, null, null, i.resets",
    tests: left,
    guard: "the sweep knows related rows of items that have ended",
  },
  {
    file: "lib/sql/related.ts",
    remove: "${sql.join(parents, sql` and `)}",
    by: "(${sql.join(parents, sql` or `)})",
    tests: two,
    guard: "a child is dead only if none of its parents stands behind it",
  },
  {
    file: "lib/sql/sweep-rows.ts",
    remove: "not (${sql.join(waits, sql` or `)})",
    by: "not (${sql.join(waits, sql` and `)})",
    tests: two,
    guard: "a child is kept while one of its parents waits",
  },
  {
    file: "lib/sql/apply.ts",
    remove: "(u.due_at <= now() or u.ready_for <> ${text(p.name)} and u.due_at is not null)",
    by: "(u.due_at <= now())",
    tests: answers,
    guard: "the next pipeline hears of a row that is due later",
  },
  {
    file: "lib/engine/lock-related.ts",
    remove: "if (!refused || keys.length === 1) throw error;",
    by: "throw error;",
    tests: answers,
    guard: "rows that do not fit into one answer are read in halves",
  },
  {
    file: "lib/engine/lock-related.ts",
    remove: 'got.length > 1 && failed(error).kind === "fail"',
    by: "false",
    tests: answers,
    guard: "one row that cannot be read fails one pass",
  },
  {
    file: "lib/engine/related-changes.ts",
    remove: "merged(byId.get(id) ?? {}, wish)",
    by: "wish",
    tests: answers,
    guard: "two wishes for one row are one write",
  },
  {
    file: "lib/engine/related-changes.ts",
    remove: "merged(before, change)",
    by: "change",
    tests: answers,
    guard: "two changes of one row are one write",
  },
  {
    file: "lib/sql/write.ts",
    remove: "  from ok where t.id = ok.id returning t.*),",
    by: "  from ok where t.id = ok.id and t.lock_token is not distinct from ok.held_token returning t.*),",
    tests: overlap,
    guard: "a row that was waited for is written, whatever token the snapshot knows",
  },
  {
    file: "lib/sql/hold.ts",
    remove: "  from ok where t.id = ok.id returning t.*)",
    by: "  from ok where t.id = ok.id and t.lock_token is not distinct from ok.held_token returning t.*)",
    tests: overlap,
    guard: "a row that was waited for is held, whatever token the snapshot knows",
  },
  {
    file: "lib/sql/write.ts",
    remove: "case when ${stillReserved(registry, name, sql`l.owner`)} then l.owner end",
    by: "l.owner",
    tests: writers("hold-reserved"),
    guard: "a row is not given back to a parent that waits no longer",
  },
  {
    file: "lib/sql/apply.ts",
    remove: 'lock_owner = case when ${readyAny(p, "t")} then t.lock_owner end, ',
    tests: left,
    guard: "an answer that finds a related row lost keeps no owner of a row that left",
  },
  {
    file: "lib/sql/apply.ts",
    remove: "when b.due_at <= now() then b.ready_for",
    tests: left,
    guard: "a row that is given back and due is hinted",
  },
];
