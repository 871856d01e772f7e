// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { sql, writers } from "../test-files.ts";

const write = "lib/sql/write.ts";
const sweep = "lib/sql/sweep.ts";
const updates = writers("update");
const holds = writers("hold", "hold-several");
const sweeps = sql("sweep-related", "sweep-owners");

/** Writers outside of pipelines, and the sweep. */
export const mutations: readonly Mutation[] = [
  {
    file: write,
    remove: "now() from locked l where ${held ? sql`true` : sql`l.free`}",
    by: "now() from locked l where true",
    tests: updates,
    guard: "a row that somebody holds is not written",
  },
  {
    file: write,
    remove: "sql.join([sql`null`, ...others.map(text)])",
    by: "sql.join([sql`null`, sql`${others.length}::text`])",
    tests: updates,
    guard: "an item of another pipeline whose lock was taken away ends",
  },
  {
    file: "lib/sql/free.ts",
    remove: "i.finished_at is null and i.lock_token = ${taken}",
    by: "i.finished_at is null",
    tests: [...updates, ...holds],
    guard: "only the item of the lock that was taken away ends",
  },
  {
    file: write,
    remove: "lock_token = k.next, lock_expires_at = now() + make_interval(secs => ${sql.lit(seconds)}), due_at",
    by: "lock_token = k.next, due_at",
    tests: holds,
    guard: "each write of a holder begins its time again",
  },
  {
    file: write,
    remove: "lock_owner = coalesce(t.lock_owner, case when",
    by: "lock_owner = (case when",
    tests: [...holds, "test/integration/write/hold-reserved.test.ts"],
    guard: "a row is given back with the owner that stands beside the token",
  },
  {
    file: "lib/sql/emit.ts",
    remove: 'group.columns.includes("id") ? sql` on conflict (id) do nothing` : sql``',
    by: "sql``",
    tests: writers("names"),
    guard: "rows that name their id are inserted once",
  },
  {
    file: "lib/write/writer.ts",
    remove: "...(once ? {} : { withinSeconds: 0 })",
    by: "...(once ? {} : {})",
    tests: writers("writer"),
    guard: "rows without an id are not inserted again after a lost answer",
  },
  {
    file: sweep,
    remove: "or i.finished_at < now() - make_interval(mins => ${int(WATCH_MINUTES)}) and not",
    by: "or i.finished_at < now() and not",
    tests: sweeps,
    guard: "a row that was reset is watched for some time",
  },
  {
    file: sweep,
    remove: "update millrace.items i set resets = 0, related = null from orphans",
    by: "update millrace.items i set resets = i.resets, related = null from orphans",
    tests: sweeps,
    guard: "and then no more",
  },
  {
    file: sweep,
    remove: "t.lock_token is not null and t.lock_owner in (i.pipeline, i.pipeline || ':' || i.item_id)",
    by: "t.lock_token is not null",
    tests: sweeps,
    guard: "an item does not wait for a related row that somebody else holds",
  },
];
