// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { sql } from "../test-files.ts";

const file = "lib/sql/fetch.ts";
const test = (aspect: string) => sql(`fetch${aspect}`);

export const mutations: readonly Mutation[] = [
  {
    file,
    remove: "i.state = 'processing' and i.finished_at is null as lost",
    by: "i.finished_at is null as lost",
    tests: test("-lost"),
    guard: "only a claimed item can lose its worker",
  },
  {
    file,
    remove: "i.state = 'processing' and i.finished_at is null as lost",
    by: "false as lost",
    tests: test("-lost"),
    guard: "a lost worker is noticed",
  },
  {
    file,
    remove: "where i.item_id = u.id and i.pipeline = ${name} for no key update) l on true",
    by: "where i.item_id = u.id for no key update) l on true",
    tests: test("-lost"),
    guard: "another pipeline's item does not count",
  },
  {
    file,
    remove: "i.pipeline = ${name} for no key update) l on true",
    by: "i.pipeline = ${name}) l on true",
    tests: test("-lost"),
    guard: "attempts are read under the item's lock",
  },
  {
    file,
    remove: "k.lost and (k.attempts >= 2 or ${dead})",
    by: "k.lost and (k.attempts >= 1 or ${dead})",
    tests: test("-lost"),
    guard: "the first death is forgiven",
  },
  {
    file,
    remove: " or ${dead})",
    by: ")",
    tests: test("-lost"),
    guard: "maxAttempts 1 holds for lost workers",
  },
  {
    file,
    remove: " and not k.moved as back_off",
    by: " as back_off",
    tests: test("-lost"),
    guard: "a row that was asked for meanwhile does not back off",
  },
  {
    file,
    remove: "case when k.lost and k.moved then 0 else k.attempts end",
    by: "k.attempts",
    tests: test("-lost"),
    guard: "and its attempts start again",
  },
  {
    file,
    remove: "case when k.dead then null else now() + ${backoff(p, sql`k.attempts`)} end\n",
    by: "now() + ${backoff(p, sql`k.attempts`)}\n",
    tests: test("-lost"),
    guard: "a dead row is never due",
  },
  {
    file,
    remove: "prev_lock_expired = i.prev_lock_expired or excluded.prev_lock_expired",
    by: "prev_lock_expired = excluded.prev_lock_expired",
    tests: test("-lost"),
    guard: "a suspect stays one after its back-off",
  },
  {
    file,
    remove: "select n.id, ${name}, 'locked', ${uuid(token)}, n.lost,",
    by: "select n.id, ${name}, 'locked', ${uuid(token)}, false,",
    tests: test("-lost"),
    guard: "a lost worker makes a suspect",
  },
  {
    file,
    remove: "last_error = coalesce(excluded.last_error, i.last_error)",
    by: "last_error = excluded.last_error",
    tests: test(""),
    guard: "the last error is remembered",
  },
];
