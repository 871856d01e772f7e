// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { real } from "../test-files.ts";

const unit = (name: string) => [`test/unit/engine/${name}.test.ts`];

/** A fetch: what is locked, sent and hinted. */
export const mutations: readonly Mutation[] = [
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
