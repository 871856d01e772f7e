// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { sql } from "../test-files.ts";

const file = "lib/sql/request.ts";
const tests = sql("request");
const operate = sql("operate");

export const mutations: readonly Mutation[] = [
  {
    file,
    remove: "case when t.due_at = now() then now() + interval '1 microsecond' else now() end",
    by: "now()",
    tests,
    guard: "the due_at of a request differs from what any claim saw",
  },
  {
    file,
    remove: "${set} due_at = ${dueNow}",
    by: "${set} due_at = t.due_at",
    tests,
    guard: "a request is due at once",
  },
  {
    file,
    remove: " and e.finished_at is not null)",
    by: ")",
    tests,
    guard: "the attempts of an item in flight go on",
  },
  {
    file,
    remove: "in (${sql.join(pipelines.map((p) => text(p.name)))}) for no key update) l),",
    by: "in (${sql.join(pipelines.map((p) => text(p.name)))}) and i.finished_at is not null for no key update) l),",
    tests,
    guard: "whether an item has ended is asked of the locked version",
  },
  {
    file,
    remove: "i.item_id = h.id and i.pipeline in (${sql.join(pipelines.map((p) => text(p.name)))})",
    by: "i.item_id = h.id",
    tests,
    guard: "items of other tables' pipelines are left alone",
  },
  {
    file,
    remove: "attempts = 0, resets = least(i.resets, 1), state",
    by: "state",
    tests,
    guard: "attempts of an ended item start again",
  },
  {
    file,
    remove: "case when i.state = 'dead' then 'failed' else i.state end",
    by: "i.state",
    tests,
    guard: "a dead row is revived",
  },
  {
    file: "lib/schema/engine-tables.ts",
    remove: "case when old.due_at = now() then now() + interval ''1 microsecond'' else now() end",
    by: "now()",
    tests,
    guard: "the trigger's due_at differs from what any claim saw",
  },
  {
    file: "lib/schema/due-trigger.ts",
    remove: " and old.due_at is not distinct from new.due_at)",
    by: ")",
    tests,
    guard: "an update that sets due_at itself is left alone",
  },
  {
    file: "lib/schema/due-trigger.ts",
    remove: 'row(${list("old")}) is distinct from row(${list("new")}) and ',
    tests,
    guard: "an update of other columns makes nothing due",
  },
  {
    file: "lib/sql/operate.ts",
    remove: "w as (update millrace.wakeups k set wake_at = null from p where k.pipeline = p.name)",
    by: "w as (select 1)",
    tests: operate,
    guard: "a pause clears the armed wake-up",
  },
  {
    file: "lib/sql/operate.ts",
    remove: "coalesce(q.paused_at, now())",
    by: "now()",
    tests: operate,
    guard: "a second pause keeps since when",
  },
  {
    file: "lib/sql/operate.ts",
    remove: "case when q.paused_at is null then cast(cast(${by} as text) as text) else q.paused_by end",
    by: "cast(cast(${by} as text) as text)",
    tests: operate,
    guard: "a second pause keeps who was first",
  },
  {
    file: "lib/sql/operate.ts",
    remove: "paused_at = null, paused_by = null",
    by: "paused_at = null",
    tests: operate,
    guard: "a resume forgets who paused",
  },
];
