import { type PipelineOptions, type Registry, registry } from "../../lib/index.ts";
import { fetchMessages, type TestPorts, testPorts, work } from "./ports.ts";
import {
  active,
  closing,
  ending,
  groups,
  members,
  type RelatedEngine,
  running,
  tasks,
  tend,
  waiting,
} from "./related-tables.ts";

// biome-ignore lint/suspicious/noExplicitAny: each test processes as it likes
type Pass = Readonly<Record<string, any>>;

/** The states of groups, members and tasks that a test can give code of its own. */
export type RelatedPasses = Readonly<
  Partial<Record<"active" | "closing" | "tend" | "waiting" | "running" | "ending", Pass>>
>;

/** The pipelines of the related tables with code of the test's own in their states. */
export function relatedPasses(of: RelatedPasses, options: PipelineOptions = {}): Registry<unknown> {
  const all = { workers: 20, ...options };
  return registry<unknown>([
    groups.pipeline(
      "groups",
      {
        active: groups.state({ ...active.spec, ...of.active }),
        closing: groups.state({ ...closing.spec, ...of.closing }),
      },
      all,
    ),
    members.pipeline(
      "members",
      { tend: members.state({ ...tend.spec, ...of.tend }) },
      { yieldTo: [members.parent("groups", "group_id")], ...all },
    ),
    tasks.pipeline(
      "tasks",
      {
        waiting: tasks.state({ ...waiting.spec, ...of.waiting }),
        running: tasks.state({ ...running.spec, ...of.running }),
      },
      all,
    ),
    tasks.pipeline("endings", { ending: tasks.state({ ...ending.spec, ...of.ending }) }, all),
  ]);
}

/** One fetch of a pipeline and everything that it finds, with code of the test's own. */
export async function relatedPass(
  engine: RelatedEngine,
  pipeline: string,
  of: RelatedPasses,
  ports: TestPorts = testPorts(engine),
): Promise<TestPorts> {
  const registry = relatedPasses(of);
  await work(registry, await fetchMessages(registry, ports, pipeline), ports);
  return ports;
}
