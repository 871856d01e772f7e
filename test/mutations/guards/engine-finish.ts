// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { real } from "../test-files.ts";

const unit = (name: string) => [`test/unit/engine/${name}.test.ts`];

const lost = real("work-lost", "work-unanswered");

/** The end of a pass: what is written, tried again, reported. */
export const mutations: readonly Mutation[] = [
  {
    file: "lib/engine/finish-apply.ts",
    remove: 'outcome.unanswered ? "unknown" : "stale"',
    by: '"stale"',
    tests: lost,
    guard: "what may have been accepted is undone by nobody",
  },
  {
    file: "lib/engine/finish-apply.ts",
    remove: "!outcome.unanswered && isDataError",
    by: "isDataError",
    tests: lost,
    guard: "a refusal after an attempt without an answer fails nobody",
  },
  {
    file: "lib/engine/finish.ts",
    remove: "toInsertGroups([{ ...held, changes: ending.changes }]);",
    tests: real("work-endings"),
    guard: "what cannot travel stops its own item only",
  },
  {
    file: "lib/engine/finish.ts",
    remove: "keptText(ending.reason)",
    by: "ending.reason",
    tests: real("work-endings"),
    guard: "the reason of a retry is text that PostgreSQL takes",
  },
  {
    file: "lib/engine/finish-apply.ts",
    remove: 'if (row.result === "stale" || row.result === "contention") return;',
    tests: lost,
    guard: "a stale apply hints nobody of rows that it did not insert",
  },
  {
    file: "lib/engine/claim.ts",
    remove: "drained ||= row.millrace_drained;",
    tests: real("work-hints"),
    guard: "a claim that drains the queue asks for the next fetch",
  },
  {
    file: "lib/engine/after.ts",
    remove: "if (row.drained) after.hints.add(pipeline.name);",
    tests: real("work-hints"),
    guard: "whoever drains the queue asks for the next fetch",
  },
  {
    file: "lib/engine/lost-apply.ts",
    remove: 'result === "stale" && ',
    tests: lost,
    guard: "an unknown apply is undone by nobody",
  },
  {
    file: "lib/engine/lost-apply.ts",
    remove: " && !undone",
    tests: lost,
    guard: "what was undone is not listed as left behind",
  },
  {
    file: "lib/sql/orphan.ts",
    remove: " on conflict (token) do nothing",
    tests: lost,
    guard: "an orphan is noted once, however often that is repeated",
  },
  {
    file: "lib/engine/batches.ts",
    remove: 'error.details["unanswered"] === true || ',
    tests: unit("batches"),
    guard: "an attempt without an answer is remembered through a refusal",
  },
  {
    file: "lib/engine/batches.ts",
    remove: "unanswered: o.unanswered || unanswered",
    by: "unanswered: o.unanswered",
    tests: unit("batches"),
    guard: "an attempt of the batch without an answer is remembered by each item",
  },
  {
    file: "lib/engine/batches.ts",
    remove: "(isLockTimeout(error) || isDataError(error))",
    by: "isDataError(error)",
    tests: unit("batches"),
    guard: "a lock timeout splits the batch",
  },
  {
    file: "lib/engine/report-end.ts",
    remove: '.replaceAll("\\0", "\\ufffd").toWellFormed()',
    tests: real("work-endings"),
    guard: "an error is kept as text that PostgreSQL takes",
  },
  {
    file: "lib/engine/finisher.ts",
    remove: "clock.wait(PATIENCE_MS, waited.signal)",
    by: "new Promise(() => waited)",
    tests: unit("finisher"),
    guard: "a slow flush does not hold up the next for ever",
  },
  {
    file: "lib/engine/finisher.ts",
    remove: "if (running() > 0) await",
    by: "await",
    tests: unit("finisher"),
    guard: "the last one is written at once",
  },
  {
    file: "lib/engine/key.ts",
    remove: '\\n${appliedToken ?? ""}',
    tests: real("work-suspects"),
    guard: "a new key after every accepted apply",
  },
  {
    file: "lib/engine/changes.ts",
    remove: "if ((ENGINE_COLUMNS as readonly string[]).includes(column))",
    by: "if (column === NOW.toString())",
    tests: unit("changes"),
    guard: "no answer writes the engine's columns",
  },
];
