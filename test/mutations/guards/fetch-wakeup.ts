// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { sql } from "../test-files.ts";

const file = "lib/sql/fetch.ts";
const test = (aspect: string) => sql(`fetch${aspect}`);

export const mutations: readonly Mutation[] = [
  {
    file,
    remove: " union all select due_at from backed) n",
    by: ") n",
    tests: test("-wakeup"),
    guard: "a row that backs off is armed",
  },
  {
    file,
    remove: 'where ${readyAny(p, "t")} and t.due_at > now()',
    by: "where t.due_at > now()",
    tests: test("-wakeup"),
    guard: "only a ready row is armed",
  },
  {
    file,
    remove: " and ${common(sql`t.lock_owner is null or t.lock_owner = ${name}`)}\n",
    by: "\n",
    tests: test("-wakeup"),
    guard: "a row that another pipeline owns is not armed",
  },
  {
    file,
    remove: "and (select n from room) > 0 order by",
    by: "order by",
    tests: test("-wakeup"),
    guard: "a full queue arms nothing",
  },
  {
    file,
    remove: "select due_at from backed) n)`, scheduled)",
    by: "select due_at from backed) n)`)",
    tests: test("-wakeup"),
    guard: "a scheduled fetch sends the wake-up always",
  },
];
