// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { sql } from "../test-files.ts";

const file = "lib/sql/end.ts";
const end = sql("end");
const fail = sql("fail");

export const mutations: readonly Mutation[] = [
  {
    file,
    remove: "where t.id = w.id and t.lock_token = w.token for no key update) l\n",
    by: "where t.id = w.id for no key update) l\n",
    tests: end,
    guard: "only the holder ends a pass",
  },
  {
    file,
    remove: "t.lock_token = w.token for no key update) l\n",
    by: "t.lock_token = w.token) l\n",
    tests: end,
    guard: "the token is compared under the row's lock",
  },
  {
    file,
    remove: "i.pipeline = ${text(p.name)} for no key update) l",
    by: "i.pipeline = ${text(p.name)}) l",
    tests: end,
    guard: "already is read from the newest item",
  },
  {
    file,
    remove: "\n  where (select count(*) from ${last}) >= 0),",
    by: "),",
    tests: end,
    guard: "the item is locked after the row",
  },
  {
    file,
    remove: "case when m.moved then least(t.due_at, ${due}) else ${due} end",
    by: "${due}",
    tests: end,
    guard: "a request meanwhile keeps its time",
  },
  {
    file,
    remove: "case when m.dead and not m.moved then 'dead' else 'failed' end",
    by: "case when m.dead then 'dead' else 'failed' end",
    tests: fail,
    guard: "a row that was requested meanwhile is not dead",
  },
  {
    file,
    remove: "attempts = case when m.moved then 0 else i.attempts end, ",
    tests: fail,
    guard: "its attempts start again",
  },
  {
    file,
    remove: "case when ${dead} then null else now() + ${backoff(p, sql`m.attempts`)} end",
    by: "now() + ${backoff(p, sql`m.attempts`)}",
    tests: fail,
    guard: "a dead row is never due",
  },
  {
    file: "lib/sql/parts.ts",
    remove: "least(${sql.lit(maxSeconds)}::float8, ${sql.lit(firstSeconds)}::float8 * ",
    by: "(${sql.lit(firstSeconds)}::float8 * ",
    tests: fail,
    guard: "back-off has a longest wait",
  },
  {
    file: "lib/sql/parts.ts",
    remove: "least(greatest(${attempts} - 1, 0), 60)",
    by: "greatest(${attempts} - 1, 0)",
    tests: fail,
    guard: "back-off does not overflow",
  },
  {
    file: "lib/sql/parts.ts",
    remove: "${sql.lit(2 * jitter)}::float8 * random()",
    by: "${sql.lit(jitter)}::float8",
    tests: fail,
    guard: "back-off differs from row to row",
  },
  {
    file,
    remove: "sql`case when m.keep then t.lock_owner end`",
    by: "sql`null`",
    tests: end,
    guard: "at contention the owner stays",
  },
  {
    file,
    remove: "sql`case when m.keep then t.lock_owner end`",
    by: "sql`t.lock_owner`",
    tests: end,
    guard: "a retry by user code releases the owner",
  },
  {
    file: "lib/sql/parts.ts",
    remove: "[least(${resets} + 1, ${sql.lit(RESET_SECONDS.length)})]",
    by: "[1]",
    tests: end,
    guard: "resets wait longer and longer",
  },
  {
    file,
    remove: "sql`state = 'retried', attempts = greatest(i.attempts - 1, 0), ",
    by: "sql`state = 'retried', attempts = i.attempts - 1, ",
    tests: end,
    guard: "attempts never fall below zero",
  },
  {
    file,
    remove: "attempts = greatest(i.attempts - 1, 0), resets = i.resets + 1",
    by: "resets = i.resets + 1",
    tests: end,
    guard: "a reset counts no attempt",
  },
  {
    file,
    remove: "sql`state = 'released', attempts = greatest(i.attempts - 1, 0), ",
    by: "sql`state = 'released', ",
    tests: end,
    guard: "a release counts no attempt",
  },
  {
    file,
    remove: '${step === "release" ? sql`t.last_processed_at` : sql`now()`}',
    by: "now()",
    tests: end,
    guard: "a release leaves last_processed_at alone",
  },
  {
    file,
    remove: "due: sql`t.due_at`",
    by: "due: sql`now()`",
    tests: end,
    guard: "a release leaves due_at alone",
  },
  {
    file,
    remove: "case when u.due_at <= now() then u.ready_for end",
    by: "null",
    tests: end,
    guard: "a row that is due already is hinted",
  },
  {
    file,
    remove:
      "(select ${pipelineOf(siblings)} from ${table(p.table)} t where t.id = w.id and t.due_at <= now() and t.lock_token is null)",
    by: "null",
    tests: end,
    guard: "a repetition repeats the hint",
  },
  {
    file,
    remove: " and t.due_at <= now() and t.lock_token is null)",
    by: " and t.due_at <= now())",
    tests: end,
    guard: "a repetition hints nobody for a row that is held again",
  },
  {
    file,
    remove: "prev_lock_expired = false, related = case",
    by: "related = case",
    tests: end,
    guard: "an item that was ended in good order is no suspect",
  },
  {
    file,
    remove: "finished_tokens = ${rememberToken(sql`m.token`)}, ",
    tests: end,
    guard: "the token is remembered",
  },
  {
    file,
    remove: "left join upd u on u.id = w.id and u.token = w.token left",
    by: "left join upd u on u.id = w.id left",
    tests: end,
    guard: "answers are joined by id and token",
  },
];
