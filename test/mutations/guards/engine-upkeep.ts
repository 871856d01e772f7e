// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { real } from "../test-files.ts";

/** The heartbeat, and what is sent to queues. */
export const mutations: readonly Mutation[] = [
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
