// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { real, sql } from "../test-files.ts";

const lock = sql("lock-related", "lock-shared");
const apply = sql("apply-related", "apply-contention", "end-related");
const passes = real("work-related", "work-contention", "related-answers");
const wanted = "lib/sql/wanted.ts";
const statement = "lib/sql/lock-related.ts";
const related = "lib/sql/related.ts";

export const mutations: readonly Mutation[] = [
  {
    file: statement,
    remove: "when m.millrace_state is distinct from m.millrace_was then 'moved'",
    tests: lock,
    guard: "a row that changed its state locks nothing",
  },
  {
    file: statement,
    remove: "when not m.millrace_same then 'contention'",
    tests: lock,
    guard: "what the main row names is compared again under its lock",
  },
  {
    file: statement,
    remove: "where t.id = w.id and t.lock_token = w.token ${EACH}) s)",
    by: "where t.id = w.id ${EACH}) s)",
    also: [
      {
        remove: "where t.id = s.millrace_id and t.lock_token = s.millrace_token for no key update) l",
        by: "where t.id = s.millrace_id for no key update) l",
      },
    ],
    tests: lock,
    guard: "only the holder locks related rows",
  },
  {
    file: wanted,
    remove: "(${t}.lock_expires_at is null or ${t}.lock_expires_at < now())",
    by: "true",
    tests: lock,
    guard: "a live lock is respected",
  },
  {
    file: wanted,
    remove: "sql`(${t}.lock_owner is null or ${t}.lock_owner = ${owner})`",
    by: "sql`true`",
    tests: lock,
    guard: "a row that somebody else owns is not taken",
  },
  {
    file: wanted,
    remove: "const owned = parent ? sql`true` : ",
    by: "const owned = ",
    tests: lock,
    guard: "a parent takes its children from any owner without a live lock",
  },
  {
    file: wanted,
    remove: "or ${seen}.dead and ${t}.lock_token = ${seen}.seen_token)",
    by: ")",
    tests: lock,
    guard: "a dead lock is taken",
  },
  {
    file: wanted,
    remove: "or ${seen}.dead and ${t}.lock_token = ${seen}.seen_token)",
    by: "or ${seen}.dead)",
    tests: lock,
    guard: "a verdict holds only for the lock that it was made on",
  },
  {
    file: wanted,
    remove: "(not ${seen}.yields or ",
    by: "(true or ",
    tests: lock,
    guard: "a row makes way for its parent, whoever wants it",
  },
  {
    file: wanted,
    remove: " or ${t}.lock_owner = ${owner} and ${t}.lock_expires_at is not null)",
    by: ")",
    tests: lock,
    guard: "our own expired lock is taken again, parent or not",
  },
  {
    file: wanted,
    remove: "(${t}.lock_token is not distinct from ${token} or (${t}.lock_expires_at",
    by: "((${t}.lock_expires_at",
    tests: lock,
    guard: "a repetition finds its own locks",
  },
  {
    file: wanted,
    remove: "order by c.ours desc, ${sql.join(order)} limit",
    by: "order by ${sql.join(order)} limit",
    also: [{ remove: "row_number() over (order by c.ours desc, ", by: "row_number() over (order by " }],
    tests: lock,
    guard: "a repetition picks the same row",
  },
  {
    file: wanted,
    remove: "select distinct on (x.id) x.*",
    by: "select x.*",
    tests: lock,
    guard: "of two main rows of a batch one gets a shared row",
  },
  {
    file: wanted,
    remove: "select distinct u.id from unnest",
    by: "select u.id from unnest",
    tests: [...lock, ...apply, ...passes],
    guard: "an id that stands twice in a list counts once",
  },
  {
    file: wanted,
    remove:
      " and ${matching(lock, sql`s`)} and ${whereOf(lock)}\n      and ${free(scope, lock, sql`t`, sql`f.token`, sql`f.item`, sql`f`)} for no key update skip locked) l\n  where (select count(*) from ${last}) >= 0 limit 1",
    by: " for no key update skip locked) l\n  where (select count(*) from ${last}) >= 0 limit 1",
    tests: lock,
    guard: "a picked row is looked at again under its lock",
  },
  {
    file: wanted,
    remove: "(v.result = 'locked'${reserve})",
    by: "true",
    tests: lock,
    guard: "all or none",
  },
  {
    file: wanted,
    remove: " or v.result = 'contention' and t.lock_token is distinct from v.token",
    tests: lock,
    guard: "reserve leaves the owner on what is free",
  },
  {
    file: related,
    remove: "and m.lock_token = t.lock_token)`;",
    by: ")`;",
    tests: lock,
    guard: "a lock is dead when its main row carries another token",
  },
  {
    file: related,
    remove: "y.lock_owner in (${sql.join(pipelines.map(text))})",
    by: "y.lock_owner is not null",
    tests: lock,
    guard: "rows make way for those pipelines only that lock them as children",
  },
  {
    file: related,
    remove: " or y.last_processed_at > now() - interval '1 minute'",
    tests: lock,
    guard: "rows make way for a parent that waits",
  },
  {
    file: related,
    remove: "\n      and (y.lock_expires_at > now() or y.last_processed_at > now() - interval '1 minute')",
    tests: lock,
    guard: "but not for ever for one that does not come",
  },
  {
    file: "lib/sql/fetch.ts",
    remove: "not ${yielding(registry, p.table)} or ",
    by: "true or ",
    tests: lock,
    guard: "a fetch leaves the children of a waiting parent alone",
  },
  {
    file: "lib/sql/fetch.ts",
    remove: " or coalesce(t.lock_owner = ${name} and t.lock_expires_at is not null, false)",
    tests: lock,
    guard: "a fetch takes its own expired lock, parent or not",
  },
  {
    file: "lib/engine/finish-apply.ts",
    remove: "const plain = applies.filter((a) => !asks.includes(a));",
    by: "const plain = applies;\n  asks.length = 0;",
    also: [{ remove: "const asks = applies.filter(", by: "let asks = applies.filter(" }],
    tests: passes,
    guard: "answers that ask something of others are written one by one",
  },
  {
    file: "lib/engine/lock-related.ts",
    remove: 'const key = `${held[n]!.state?.name} ${Object.keys(locks).join(" ")} ${alone ? n : ""}`;',
    by: 'const key = `${held[n]!.state?.name} ${Object.keys(locks).join(" ")}`;',
    tests: passes,
    guard: "two rows of a batch do not pick in one statement",
  },
];
