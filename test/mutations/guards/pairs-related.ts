// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { sql } from "../test-files.ts";

/** Guards around related rows that stand twice. */

export const mutations: readonly Mutation[] = [
  {
    file: "lib/sql/touched.ts",
    remove: "where r.delete and t.id = r.id and t.lock_token = r.token and ${TOLD})",
    by: "where r.delete and t.id = r.id and ${TOLD})",
    tests: sql("apply-lost"),
    guard: "a related row is deleted under the pass's token",
    reason: "an answer is accepted only where every row that it names was locked with the token: `l.held` in apply.ts",
  },
  {
    file: "lib/sql/touched.ts",
    remove: "where r.delete and t.id = r.id and t.lock_token = r.token and ${TOLD})",
    by: "where r.delete and t.id = r.id and ${TOLD})",
    also: [{ file: "lib/sql/apply.ts", remove: " and l.held))`", by: "))`" }],
    tests: sql("apply-lost"),
    guard: "a related row is deleted under the pass's token, looked at twice",
  },
  {
    file: "lib/sql/lock-related.ts",
    remove: "where t.id = s.millrace_id and t.lock_token = s.millrace_token for no key update) l",
    by: "where t.id = s.millrace_id for no key update) l",
    tests: sql("lock-related"),
    guard: "the main row's token is compared under its lock",
    reason:
      "the item is looked for by the token that the row has, and one that was claimed anew since the statement's snapshot is not found by it: CTE kept",
  },
  {
    file: "lib/sql/lock-related.ts",
    remove: "where t.id = s.millrace_id and t.lock_token = s.millrace_token for no key update) l",
    by: "where t.id = s.millrace_id for no key update) l",
    also: [{ remove: " and i.lock_token = m.millrace_held for no key update) l", by: " for no key update) l" }],
    tests: sql("lock-related"),
    guard: "the main row's token is compared under its lock, looked at twice",
  },
];
