// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { sql } from "../test-files.ts";

const apply = "lib/sql/apply.ts";
const touched = "lib/sql/touched.ts";

const endings = sql("apply-related", "apply-contention", "end-related");

/** What endings write beside the row, and what they say. */
export const mutations: readonly Mutation[] = [
  {
    file: apply,
    remove: "where not exists (select 1 from ok where ok.id = m.id) and t.id = m.id",
    by: "where t.id = m.id",
    tests: endings,
    guard: "an accepted answer is not given back as well",
  },
  {
    file: apply,
    remove:
      "case when t.due_at is not distinct from m.seen then ${due} else least(t.due_at, ${due}) end\n  from main m",
    by: "${due}\n  from main m",
    tests: sql("apply-lost"),
    guard: "a request meanwhile keeps its time when the answer finds contention",
  },
  {
    file: apply,
    remove: "last_error = 'contention', related = null",
    by: "last_error = 'contention'",
    tests: endings,
    guard: "a row that is given back has no related rows on its list",
  },
  {
    file: apply,
    remove: "set state = 'retried', finished_at = now(), lock_token = null,",
    by: "set state = 'retried', finished_tokens = array_append(i.finished_tokens, b.token), finished_at = now(), lock_token = null,",
    tests: endings,
    guard: "a repetition does not take for written what was given back",
  },
  {
    file: apply,
    remove: "u.ready_for = ${text(p.name)} and u.due_at > now()",
    by: "false",
    tests: sql("apply-due"),
    guard: "an answer arms the wake-up of its row",
  },
  {
    file: touched,
    remove: "r.item = w.id and t.due_at <= now() and t.lock_token is null`",
    by: "r.item = w.id and t.due_at <= now()`",
    tests: sql("apply-lost"),
    guard: "a repetition hints nobody for a related row that is held again",
  },
  {
    file: touched,
    remove: "${deletes ? sql`for update` : sql`for no key update`}) l",
    by: "${deletes ? sql`for update` : sql``}) l",
    tests: endings,
    guard: "a related row's token is compared under its lock",
  },
  {
    file: "lib/sql/parts.ts",
    remove: "sql`${attempts} >= ${int(p.options.maxAttempts)}`",
    by: "sql`${attempts} > ${int(p.options.maxAttempts)}`",
    tests: sql("fail"),
    guard: "no attempt more than maxAttempts",
  },
  {
    file: "lib/sql/end.ts",
    remove: "where u.due_at > now() and u.ready_for = ${text(p.name)})`",
    by: "where u.due_at > now())`",
    tests: sql("end"),
    guard: "an ending arms no wake-up for a row that another pipeline wants",
  },
  {
    file: "lib/sql/end.ts",
    remove: "sql`u.id is not null and u.lock_owner is null`",
    by: "sql`u.id is not null`",
    tests: endings,
    guard: "children that make way for a row which goes on waiting are not hinted",
  },
];
