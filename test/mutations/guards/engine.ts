// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { real } from "../test-files.ts";

/** A pass: what a worker does with the items of a batch. */
export const mutations: readonly Mutation[] = [
  {
    file: "lib/engine/process.ts",
    remove: 'typeof changes === "object" && changes !== null',
    by: "true",
    tests: real("work-endings"),
    guard: "apply names changes",
  },
  {
    file: "lib/engine/process.ts",
    remove: ' && typeof reason === "string"',
    tests: real("work-endings"),
    guard: "retry gives a reason",
  },
  {
    file: "lib/engine/process.ts",
    remove: "abort.abort(error);",
    tests: real("work-endings"),
    guard: "a pass whose time is up is told",
  },
  {
    file: "lib/engine/process.ts",
    remove: "(ports.timeLeft() - FINISH_MS) / 1000",
    by: "ports.timeLeft() / 1000",
    tests: real("work-endings"),
    guard: "time is kept back to write what came of it",
  },
  {
    file: "lib/engine/process.ts",
    remove: 'if (state === null) return { kind: "release" };',
    tests: real("work"),
    guard: "a row that has left every state is given back",
  },
  {
    file: "lib/engine/renewals.ts",
    remove: "!p.ended && ",
    tests: real("work-renewals"),
    guard: "what has ended is not renewed",
  },
  {
    file: "lib/engine/renewals.ts",
    remove: "!outcome.row.renewed && ",
    tests: real("work-renewals"),
    guard: "only a pass whose lock is gone is aborted",
  },
  {
    file: "lib/engine/renewals.ts",
    remove: "!p.ended && !p.abort.signal.aborted",
    by: "!p.ended",
    tests: real("work-renewals"),
    guard: "a pass that was told to stop is not renewed",
  },
  {
    file: "lib/engine/renewals.ts",
    remove: "Math.max(0, ports.timeLeft() / 1000)",
    by: "900",
    tests: real("work-renewals"),
    guard: "nobody is alive beyond the end of the function",
  },
  {
    file: "lib/engine/work.ts",
    remove: "pass.ended = true;",
    tests: real("work-renewals"),
    guard: "an ending that is on its way ends the renewals",
  },
  {
    file: "lib/engine/work.ts",
    remove: "stop.abort();\n  await renewing;",
    by: "void renewing;",
    tests: real("work-renewals"),
    guard: "renewals end with the batch",
  },
  {
    file: "lib/engine/work.ts",
    remove: "pipeline.options.processTimeoutSeconds * 1000 + 2 * FINISH_MS",
    by: "0",
    tests: real("work-suspects"),
    guard: "a suspect is claimed only while time is left for it",
  },
  {
    file: "lib/engine/work.ts",
    remove:
      "keep.push(...received.filter((r) => unreached.includes(r.item)).map((r) => r.messageId));\n    await runPasses",
    by: "await runPasses",
    tests: real("work-suspects"),
    guard: "a suspect whose claim did not reach the database comes again",
  },
  {
    file: "lib/engine/work.ts",
    remove: "keep.push(...received.filter((r) => batch.unreached.includes(r.item)).map((r) => r.messageId));",
    tests: real("work-unreached"),
    guard: "a message whose claim did not reach the database comes again",
  },
  {
    file: "lib/engine/claim.ts",
    remove: "const kept = !isRefusal(code);",
    by: "const kept = true || code;",
    tests: real("work-unreached"),
    guard: "a claim that fails for good keeps no message",
  },
  {
    file: "lib/engine/claim.ts",
    remove: 'row.millrace_result === "alone" || skipLocked',
    by: "skipLocked",
    tests: real("work-suspects"),
    guard: "a suspect waits for its turn",
  },
];
