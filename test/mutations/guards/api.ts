// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";

const jobs = "functions/api/job-rows.ts";
const ofJobs = ["test/integration/api/jobs.test.ts"];

export const mutations: readonly Mutation[] = [
  {
    file: jobs,
    remove: "and not to_be_deleted for share),\nv as",
    by: "and not to_be_deleted),\nv as",
    tests: ofJobs,
    guard: "a job is not made for a fleet whose deletion commits meanwhile",
  },
  {
    file: jobs,
    remove: "and ${FOLDER_NAME} for share) l),",
    by: "and ${FOLDER_NAME}) l),",
    tests: ofJobs,
    guard: "a job is not made with a volume whose deletion commits meanwhile",
  },
  {
    file: jobs,
    remove: "count(distinct name)",
    by: "count(*)",
    tests: ofJobs,
    guard: "volumes of a job have names of their own",
  },
  {
    file: jobs,
    remove: " and ${FOLDER_NAME} for share",
    by: " for share",
    tests: ofJobs,
    guard: "volumes of a job have names that folders can have",
  },
  {
    file: "lib/write/unique-name.ts",
    remove: "select pg_try_advisory_xact_lock(hashtextextended(${key}, 0)) as had",
    by: "select true as had from pg_advisory_xact_lock(hashtextextended(${key}, 0))",
    tests: ["test/integration/api/waiting.test.ts"],
    guard: "who waits for a name does so outside of any transaction",
  },
  {
    file: "functions/api/job-output.ts",
    remove: "begin + kept.length",
    by: "kept.length",
    tests: ["test/integration/api/output.test.ts"],
    guard: "bytes of a kept output are counted from the beginning of all of it",
  },
  {
    file: "functions/api/instance-rows.ts",
    remove: "await held.updateAll(\n            staying.map(({ id }) => id),\n            {",
    by: "for (const [n, { id }] of staying.entries()) await held.update(\n            id,\n            {",
    also: [{ remove: "{ insert: { events } }", by: "{ insert: { events: events.slice(n, n + 1) } }" }],
    tests: ["test/integration/api/fleets.test.ts"],
    guard: "instances are terminated all or none",
  },
];
