// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { real } from "../test-files.ts";

const fence = "lib/schema/fence.ts";
const refusals = ["test/integration/schema/fence.test.ts"];
const columns = ["test/integration/schema/fence-columns.test.ts"];
const backfills = ["test/integration/schema/backfill.test.ts"];

export const mutations: readonly Mutation[] = [
  {
    file: fence,
    remove: "when (old.lock_token is not null and new.lock_token is not",
    by: "when (new.lock_token is not",
    tests: refusals,
    guard: "a free row takes every update",
  },
  {
    file: fence,
    remove: "new.lock_token is not distinct from old.lock_token",
    by: "true",
    tests: refusals,
    guard: "a write that changes the token passes",
  },
  {
    file: fence,
    remove: 'row(${values("old")}) is distinct from row(${values("new")})',
    by: "true",
    tests: refusals,
    guard: "an intent column and the engine's own may be written at any time",
  },
  {
    file: fence,
    remove: 'row(${values("old")}) is distinct from row(${values("new")})',
    by: "false",
    tests: refusals,
    guard: "a managed column of a held row is not written past its lock",
  },
  {
    file: fence,
    remove: "when (old.lock_token is not null and current_setting",
    by: "when (current_setting",
    tests: refusals,
    guard: "a free row may be deleted",
  },
  {
    file: fence,
    remove: "current_setting('millrace.deleting', true) is distinct from 'on'",
    by: "true",
    tests: refusals,
    guard: "the engine deletes what it holds",
  },
  {
    file: fence,
    remove: "current_setting('millrace.deleting', true) is distinct from 'on'",
    by: "false",
    tests: refusals,
    guard: "a held row is not deleted past its lock",
  },
  {
    file: fence,
    remove: "columns.filter((c) => !c.generated && ",
    by: "columns.filter((c) => ",
    tests: columns,
    guard: "a table with generated columns can be fenced",
  },
  {
    file: fence,
    remove: "columns.filter((c) => c.keyed && !intent.includes(c.name))",
    by: "columns.filter((c) => c.keyed && c.name === '')",
    tests: columns,
    guard: "what a foreign key writes is no managed column unawares",
  },
  {
    file: fence,
    remove: "intent.filter((c) => !names.includes(c))",
    by: "intent.filter((c) => c === '')",
    tests: columns,
    guard: "an intent column that does not exist is named",
  },
  {
    file: fence,
    remove: "if (lacking.length > 0) throw",
    by: "if (lacking.length > 99) throw",
    tests: columns,
    guard: "a table without lock columns is refused",
  },
  {
    file: fence,
    remove: "create or replace trigger millrace_fence before",
    by: "create trigger millrace_fence before",
    tests: columns,
    guard: "a fence can be made again",
  },
  {
    file: "lib/sql/deleting.ts",
    remove: "set_config('millrace.deleting', 'on', true)",
    by: "set_config('millrace.deleting', 'on', false)",
    tests: refusals,
    guard: "the permission to delete ends with its statement",
  },
  {
    file: "lib/sql/apply.ts",
    remove: "and ok.delete and ${TOLD})",
    by: "and ok.delete)",
    tests: refusals,
    guard: "the deletion of a row is told to its fence",
  },
  {
    file: "lib/sql/touched.ts",
    remove: "t.lock_token = r.token and ${TOLD})",
    by: "t.lock_token = r.token)",
    tests: refusals,
    guard: "the deletion of related rows is told to their fence",
  },
  {
    file: "lib/sql/write.ts",
    remove: "t.lock_token = l.token and ${TOLD} returning t.id)",
    by: "t.lock_token = l.token returning t.id)",
    tests: refusals,
    guard: "a writer's deletion is told to the fence",
  },
  {
    file: "lib/testing/undecided-columns.ts",
    remove: "registry.lockedTables.map",
    by: "registry.tables.map",
    tests: columns,
    guard: "tables that are only locked are looked at as well",
  },
  {
    file: "lib/testing/undecided-columns.ts",
    remove:
      "where not coalesce(jsonb_exists(cast(obj_description(g.oid, 'pg_trigger') as jsonb), a.attname::text), false)",
    by: "where not jsonb_exists(cast(obj_description(g.oid, 'pg_trigger') as jsonb), a.attname::text)",
    tests: columns,
    guard: "a table without a fence is found",
  },
  {
    file: "lib/adapters/data-api.ts",
    remove: '  if (sqlState === UNFENCED) return new MillraceError("ROW_FENCED", details, { cause });\n',
    tests: refusals,
    guard: "a refusal by a fence has a code of its own",
  },
  {
    file: "lib/engine/batches.ts",
    remove: '  code === "ROW_FENCED" ||\n',
    tests: ["test/unit/engine/batches.test.ts"],
    guard: "an answer that a fence refuses splits its batch",
  },
  {
    file: "lib/errors.ts",
    remove: ' || code === "ROW_FENCED"',
    tests: real("work-unreached"),
    guard: "a claim that a fence refuses keeps no message",
  },
  {
    file: "lib/schema/backfill.ts",
    remove: " and ${free} for no key update",
    by: " for no key update",
    tests: backfills,
    guard: "a backfill leaves held rows for later",
  },
  {
    file: "lib/schema/backfill.ts",
    remove: "set ${job.set}${unlock} from held h",
    by: "set ${job.set} from held h",
    tests: backfills,
    guard: "a backfill clears an expired lock where it writes",
  },
  {
    file: "lib/schema/backfill.ts",
    remove: "if (left === 0 || job.whenFree === undefined) return done;",
    by: "if (left >= 0 || job.whenFree === undefined) return done;",
    tests: backfills,
    guard: "a backfill comes back for what was held",
  },
];
