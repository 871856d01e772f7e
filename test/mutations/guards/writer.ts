// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { writers } from "../test-files.ts";

const free = "lib/sql/free.ts";
const write = "lib/sql/write.ts";
const hold = "lib/sql/hold.ts";
const update = writers("update");
const held = writers("hold", "hold-several");
const names = writers("names");

export const mutations: readonly Mutation[] = [
  {
    file: free,
    remove: "(s.dead and t.lock_token = s.seen_token)",
    by: "s.dead",
    tests: update,
    guard: "a dead lock is taken only with the token that the verdict was made on",
  },
  {
    file: free,
    remove: "or (s.dead and t.lock_token = s.seen_token)",
    tests: update,
    guard: "a dead related lock is free whatever its expiry",
  },
  {
    file: free,
    remove: " and (t.lock_owner is null or t.lock_owner in (${own}))",
    tests: update,
    guard: "an expired related lock whose main row has the token is held",
  },
  {
    file: free,
    remove: "where t.id = s.id for no key update) l)",
    by: "where t.id = s.id) l)",
    tests: update,
    guard: "the row is judged under its lock",
  },
  {
    file: free,
    remove: "(select * from seen order by id) s",
    by: "(select * from seen order by id desc) s",
    tests: held,
    guard: "rows are locked in id order",
  },
  {
    file: free,
    remove: " and i.related is null then now()",
    by: " then now()",
    tests: update,
    guard: "an item with related rows stays in flight for the sweep",
  },
  {
    file: write,
    remove:
      "lock_token = null, lock_expires_at = null, lock_owner = case when ok.held_token is null then t.lock_owner end, `",
    by: "`",
    tests: update,
    guard: "an update over an expired lock takes the token away",
  },
  {
    file: write,
    remove: "case when ok.held_token is null then t.lock_owner end",
    by: "null",
    tests: update,
    guard: "the owner of a row without token stays",
  },
  {
    file: write,
    remove: "where not (excluded.finished_tokens[1] = any (i.finished_tokens)) returning",
    by: "returning",
    tests: update,
    guard: "an update that is sent twice writes once",
  },
  {
    file: write,
    remove: "or exists (select 1 from known) then",
    by: "then",
    tests: update,
    guard: "an update that is sent twice is done although the row is held by then",
  },
  {
    file: write,
    remove: "t.lock_token in (w.token, w.next) for no key update",
    by: "true for no key update",
    tests: held,
    guard: "a write of a holder needs its token",
    also: [
      { remove: " and l.held_token = l.token)", by: ")" },
      {
        remove: "from k where t.id = k.id and t.lock_token = k.token returning",
        by: "from k where t.id = k.id returning",
      },
    ],
  },
  {
    file: write,
    remove: "set ${set}lock_token = k.next,",
    by: "set ${set}",
    tests: held,
    guard: "a write of a holder takes a new token",
  },
  {
    file: write,
    remove: "where (select count(*) from locked) = (select count(*) from w) and l.held_token = l.token)",
    by: "where l.held_token = l.token)",
    tests: held,
    guard: "a write of a holder to several rows is for all or none",
  },
  {
    file: write,
    remove:
      "case when (select count(*) from locked) = (select count(*) from w) then 'done'\n    when l.id is not null then 'ours'",
    by: "case when l.id is not null then 'done'",
    tests: held,
    guard: "of several rows none counts as written when one was lost",
  },
  {
    file: hold,
    remove: "where (select count(*) from locked l where l.free) = (select count(*) from w)),",
    by: "where l.free),",
    tests: held,
    guard: "all rows or none",
  },
  {
    file: hold,
    remove: "case when ok.taken is null and t.lock_owner in (${own}) then t.lock_owner end",
    by: "t.lock_owner",
    tests: held,
    guard: "the owner of a reservation does not stand beside a token",
  },
  {
    file: hold,
    remove: "case when u.lock_owner is null and ok.taken is null then l.held_owner end",
    by: "null",
    tests: held,
    guard: "a hidden owner is put back",
  },
  {
    file: "lib/write/unique-name.ts",
    remove: "if (rows[0]?.had !== true) return undefined;",
    tests: names,
    guard: "one after the other works with a name",
  },
  {
    file: "lib/write/writer.ts",
    remove: "await hold.giveBack().catch(leaveToExpire);",
    tests: held,
    guard: "rows are given back whatever the work does",
  },
];
