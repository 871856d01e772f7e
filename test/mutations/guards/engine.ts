// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";

const unit = (name: string) => [`test/unit/engine/${name}.test.ts`];
const real = (name: string) => [`test/integration/engine/${name}.test.ts`];

const work: readonly Mutation[] = [
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

const finish: readonly Mutation[] = [
  {
    file: "lib/engine/finish-apply.ts",
    remove: 'outcome.unanswered ? "unknown" : "stale"',
    by: '"stale"',
    tests: real("work-lost"),
    guard: "what may have been accepted is undone by nobody",
  },
  {
    file: "lib/engine/finish-apply.ts",
    remove: "!outcome.unanswered && isDataError",
    by: "isDataError",
    tests: real("work-lost"),
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
    tests: real("work-lost"),
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
    tests: real("work-lost"),
    guard: "an unknown apply is undone by nobody",
  },
  {
    file: "lib/engine/lost-apply.ts",
    remove: " && !undone",
    tests: real("work-lost"),
    guard: "what was undone is not listed as left behind",
  },
  {
    file: "lib/sql/orphan.ts",
    remove: " on conflict (token) do nothing",
    tests: real("work-lost"),
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

const fetch: readonly Mutation[] = [
  {
    file: "lib/engine/fetch.ts",
    remove: 'if (answer?.why !== "busy") return answer;',
    by: "return answer;",
    tests: real("fetch"),
    guard: "a busy fetch is tried again",
  },
  {
    file: "lib/engine/fetch.ts",
    remove: "if (accepted.length > 0) await enqueue(pipeline, accepted, [], ports);",
    tests: real("fetch"),
    guard: "the last marks are written when the time is up",
  },
  {
    file: "lib/engine/fetch.ts",
    remove: "if (!ended && !busy) await sendHints(ports.hints, [name]);",
    tests: real("fetch"),
    guard: "a run whose time was up asks for another",
  },
  {
    file: "lib/engine/fetch.ts",
    remove: "!ended && !busy",
    by: "!ended",
    tests: real("fetch"),
    guard: "a run that was kept busy leaves the rest to whoever did",
  },
  {
    file: "lib/engine/fetch.ts",
    remove: "answer.beat_age !== null && answer.beat_age < silent",
    by: "false",
    tests: real("fetch"),
    guard: "a heartbeater that beats is not started again",
  },
  {
    file: "lib/engine/fetch.ts",
    remove: "again = false;",
    tests: real("fetch"),
    guard: "a scheduled run sends its wake-up once",
  },
  {
    file: "lib/engine/hinted-fetch.ts",
    remove: "sentAt < last - CLOCK_SKEW_MS",
    by: "sentAt < last",
    tests: unit("hinted-fetch"),
    guard: "clocks differ: a hint from just before is not answered",
  },
  {
    file: "lib/engine/hinted-fetch.ts",
    remove: "last !== undefined && sentAt < last - CLOCK_SKEW_MS",
    by: "last === 0",
    tests: unit("hinted-fetch"),
    guard: "an answered hint is skipped",
  },
  {
    file: "lib/engine/hinted-fetch.ts",
    remove: "if (ended) memory",
    by: "memory",
    tests: unit("hinted-fetch"),
    guard: "only a completed fetch answers hints",
  },
  {
    file: "lib/engine/hinted-fetch.ts",
    remove: "await waitForAllowance(pipeline, ports, memory);",
    tests: unit("hinted-fetch"),
    guard: "a storm of hints is not a storm of fetches",
  },
  {
    file: "lib/engine/hinted-fetch.ts",
    remove: "await waitUntilDue(at, ports);",
    tests: unit("hinted-fetch"),
    guard: "the rest of a wake-up's second is waited out",
  },
  {
    file: "lib/engine/hinted-fetch.ts",
    remove: "Math.max(sentAt, at ?? 0)",
    by: "sentAt",
    tests: unit("hinted-fetch"),
    guard: "a wake-up counts from its due time",
  },
];

const upkeep: readonly Mutation[] = [
  {
    file: "lib/engine/heartbeat.ts",
    remove: "    if (inFlight.length === 0) return;\n",
    tests: real("heartbeat"),
    guard: "the loop ends when nothing is in flight",
  },
  {
    file: "lib/engine/fetch.ts",
    remove: " || answer.in_flight > 0",
    tests: real("heartbeater"),
    guard: "a heartbeater that is gone is replaced while anything is in flight",
  },
  {
    file: "lib/engine/heartbeat.ts",
    remove: " || ports.timeLeft() < tick + ROUND_MS",
    tests: real("heartbeat"),
    guard: "the loop ends before its function does",
  },
  {
    file: "lib/engine/heartbeat.ts",
    remove: "if (!scan && row?.sweep_age != null && row.sweep_age < SWEEP_SECONDS) return;",
    tests: real("heartbeat"),
    guard: "a sweep at most every two minutes",
  },
  {
    file: "lib/engine/heartbeat.ts",
    remove: "row.scan_age >= SCAN_SECONDS",
    by: "true",
    tests: real("heartbeat"),
    guard: "a scan at most every hour",
  },
  {
    file: "lib/adapters/sqs.ts",
    remove: "if (wasNeverSent(cause)) continue;",
    tests: ["test/integration/adapters/sqs.test.ts"],
    guard: "what the queue never got is refused",
  },
  {
    file: "lib/adapters/sqs.ts",
    remove: 'for (const n of open) outcomes[n] = "accepted";\n      return',
    by: "return",
    tests: ["test/integration/adapters/sqs.test.ts"],
    guard: "what got no answer counts as accepted",
  },
  {
    file: "lib/adapters/sqs.ts",
    remove: "failed.filter((f) => !f.SenderFault)",
    by: "failed.filter((f) => f.Id === undefined)",
    tests: ["test/integration/adapters/sqs.test.ts"],
    guard: "what the service fails is not taken for sent",
  },
  {
    file: "lib/adapters/sqs.ts",
    remove: "if (isRefusal(cause)) return outcomes;",
    tests: ["test/integration/adapters/sqs.test.ts"],
    guard: "a queue that says no has taken nothing",
  },
];

export const mutations: readonly Mutation[] = [...work, ...finish, ...fetch, ...upkeep];
