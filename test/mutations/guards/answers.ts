// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { real } from "../test-files.ts";

const related = "lib/engine/related-changes.ts";
const locks = "lib/engine/lock-related.ts";
const tests = real("work-related", "work-contention", "related-answers");
const answers = real("related-answers");

/** What an answer may say of other rows. */
export const mutations: readonly Mutation[] = [
  {
    file: related,
    remove: "if (locked.has(id) || id === held.id)",
    by: "if (locked.has(id))",
    tests: answers,
    guard: "a pass asks nothing of its own row",
  },
  {
    file: related,
    remove: "if (locked.has(id) || id === held.id)",
    by: "if (id === held.id)",
    tests,
    guard: "a pass asks nothing of a row that it has locked",
  },
  {
    file: related,
    remove: 'if (before === undefined) throw new MillraceError("RELATED_CHANGE", { pipeline, table, id });',
    by: "if (before === undefined) continue;",
    tests,
    guard: "an answer changes only rows that its pass has locked",
  },
  {
    file: related,
    remove: "checkColumns(pipeline, table, change.set ?? {});",
    tests,
    guard: "no answer writes the engine's columns of a related row",
  },
  {
    file: related,
    remove: "      checkColumns(pipeline, table, set);\n",
    tests,
    guard: "no answer asks for the engine's columns of another row",
  },
  {
    file: related,
    remove: "if (related[name] === undefined)",
    by: "if (name === '')",
    tests,
    guard: "an answer names only locks that its pass has",
  },
  {
    file: "lib/engine/finish.ts",
    remove: "        checkRelated(pipeline, held, ending.changes);\n",
    tests,
    guard: "a wrong answer fails before it travels, alone",
  },
  {
    file: locks,
    remove: "      if (lock === undefined)\n",
    by: "      if (name === '')\n",
    tests,
    guard: "decide names locks that the state has",
  },
  {
    file: locks,
    remove: "if (lost.length > 0)",
    by: "if (lost.length > 99)",
    tests,
    guard: "a pass does not run without a row that was taken after it was locked",
  },
];
