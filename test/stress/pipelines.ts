import type { Generated } from "kysely";
import { type PipelineColumns, type PipelineOptions, pipelinesFor, type Registry, registry } from "../../lib/index.ts";
import {
  check,
  type Log,
  provision,
  remove,
  type Thing,
  type Schema as ThingSchema,
  things,
} from "../support/engine-on.ts";

interface Part extends PipelineColumns {
  id: Generated<string>;
  status: Generated<"on" | "off">;
  note: string | null;
  busy: Generated<number>;
}

/** Locks all of its members. */
interface Group extends PipelineColumns {
  id: Generated<string>;
  status: Generated<"active" | "closing">;
}

/** Child of a group, and shared by tasks. */
interface Member extends PipelineColumns {
  id: Generated<string>;
  group_id: string;
  status: Generated<"idle" | "gone">;
  note: string | null;
  /** Written under related locks alone. */
  busy: Generated<number>;
}

interface Task extends PipelineColumns {
  id: Generated<string>;
  group_id: string | null;
  member_id: string | null;
  member_ids: Generated<string[]>;
  part_id: string | null;
  thing_id: string | null;
  status: Generated<"waiting" | "running" | "ending" | "done">;
  note: string | null;
}

/** Child of a task; no pipeline of its own. */
interface Bit extends PipelineColumns {
  id: Generated<string>;
  task_id: string;
}

export interface StressSchema extends Omit<ThingSchema, "things" | "logs"> {
  things: Thing & { busy: Generated<number> };
  logs: Log & { changes: Generated<Readonly<Record<string, number>>> };
  bits: Bit;
  groups: Group;
  members: Member;
  parts: Part;
  tasks: Task;
}

const { on } = pipelinesFor<StressSchema, unknown>();
const groups = on("groups");
const members = on("members");
const parts = on("parts");
const tasks = on("tasks");

const turn = parts.state({ ready: (eb) => eb("status", "=", "on"), process: ({ apply }) => apply({}) });
const active = groups.state({
  ready: (eb) => eb("status", "=", "active"),
  locks: { members: groups.children("members", "group_id", (eb) => eb("status", "!=", "gone")) },
  process: ({ apply }) => apply({}),
});
const closing = groups.state({
  ready: (eb) => eb("status", "=", "closing"),
  locks: { members: groups.children("members", "group_id", undefined, { reserve: true }) },
  process: ({ apply }) => apply({ delete: true }),
});
const tend = members.state({ ready: (eb) => eb("status", "=", "idle"), process: ({ apply }) => apply({}) });
const waiting = tasks.state({
  ready: (eb) => eb("status", "=", "waiting"),
  locks: {
    member: tasks.pick("members", { group_id: "group_id" }, { where: (eb) => eb("busy", "<", 3), orderBy: ["busy"] }),
  },
  process: ({ apply }) => apply({}),
});
// tables before and after the main one, by name
const running = tasks.state({
  ready: (eb) => eb("status", "=", "running"),
  locks: { members: tasks.parents("members", "member_ids"), thing: tasks.parent("things", "thing_id") },
  process: ({ apply }) => apply({}),
});
const ending = tasks.state({
  ready: (eb) => eb("status", "=", "ending"),
  locks: {
    bits: tasks.children("bits", "task_id"),
    member: tasks.parent("members", "member_id"),
    part: tasks.parent("parts", "part_id"),
  },
  process: ({ apply }) => apply({ set: { status: "done" } }),
});

/** How long a lock holds at least, if nobody loosens it. */
export const LOCK_SECONDS = 0.6;

/** Locks that expire while statements wait for each other, so that there are thieves all the time. */
const HASTY: PipelineOptions = {
  workers: 4,
  queueUpperFactor: 1.5,
  lockTimeoutSeconds: LOCK_SECONDS,
  leaseSeconds: 0.4,
  heartbeatTickSeconds: 0.1,
  heartbeatTriggerSeconds: 0.3,
  processTimeoutSeconds: 1,
  maxAttempts: 4,
  backoff: { firstSeconds: 0.02, maxSeconds: 0.2 },
};

/** Three pipelines without related rows, two of them over one table; and four over a parent, its children and who shares them. */
export const stressRegistry = (): Registry<unknown> =>
  registry([
    parts.pipeline("parts", { turn }, HASTY),
    things.pipeline("things", { provision, remove }, HASTY),
    things.pipeline("checks", { check }, HASTY),
    groups.pipeline("groups", { active, closing }, HASTY),
    members.pipeline("members", { tend }, { ...HASTY, yieldTo: [members.parent("groups", "group_id")] }),
    tasks.pipeline("tasks", { waiting, running }, HASTY),
    tasks.pipeline("endings", { ending }, HASTY),
  ]);

/** The tables of which rows are locked, in the order in which they are. */
export const TABLES = ["bits", "groups", "members", "parts", "tasks", "things"] as const;
export type TableName = (typeof TABLES)[number];
