import { type PipelineOptions, pipelinesFor, type Registry, registry } from "../../lib/index.ts";
import type { Schema } from "./tables.ts";

/*
 * What is simulated: every kind of lock, two pipelines over one table, children that make way, intent columns, deletions.
 * Each accepted pass adds 1 to `size` of every row that it writes and says so in `logs`, so that a write that is lost or
 * done twice is seen in the tables themselves.
 */

/** How a pass goes on, once it is let go on. */
export interface Services {
  /** Waits, throws or answers `retry`, as the simulation decides; the row's own part of a pass. */
  work(id: string): Promise<{ readonly how: "apply" | "retry"; readonly pass: number }>;
  /** What this pass did was undone. */
  undone(pass: number): void;
}

interface Row {
  readonly id: string;
  readonly size: number;
  readonly wanted: number;
}
const grown = <R extends { readonly size: number }>({ size }: R) => ({ size: size + 1 });
/** A line that names every row that a pass writes. */
const logOf = (key: string, pass: number, rows: readonly { readonly id: string }[]) => ({
  logs: [{ key, pass, changes: Object.fromEntries(rows.map(({ id }) => [id, 1])) }],
});

const { on } = pipelinesFor<Schema, Services>();
const things = on("things");
const groups = on("groups");
const members = on("members");
const tasks = on("tasks");

const seen = (row: Row) => ({ ...grown(row), done: row.wanted });
const onStale = async (
  _: unknown,
  changes: { readonly insert?: { readonly logs?: readonly { pass: number }[] } },
  services: Services,
) => services.undone(changes.insert!.logs![0]!.pass);

const provision = things.state({
  ready: (eb) => eb.and([eb("status", "=", "new"), eb("to_be_deleted", "=", false)]),
  onStale,
  process: async (s, services) => {
    const { how, pass } = await services.work(s.row.id);
    if (how === "retry") return s.retry("not yet");
    return s.apply({ set: { ...seen(s.row), status: "built" }, insert: logOf(s.key, pass, [s.row]) });
  },
});
const check = things.state({
  ready: (eb) => eb.and([eb("status", "=", "built"), eb("to_be_deleted", "=", false)]),
  onStale,
  process: async (s, services) => {
    const { how, pass } = await services.work(s.row.id);
    if (how === "retry") return s.retry("not yet");
    return s.apply({ set: { ...seen(s.row), status: "on" }, insert: logOf(s.key, pass, [s.row]) });
  },
});
const refresh = things.state({
  ready: (eb) => eb.and([eb("status", "=", "on"), eb("to_be_deleted", "=", false)]),
  onStale,
  load: (db) =>
    db
      .selectFrom("logs")
      .select((eb) => eb.fn.countAll().as("n"))
      .execute(),
  process: async (s, services) => {
    const { how, pass } = await services.work(s.row.id);
    if (how === "retry") return s.retry("not yet");
    return s.apply({ set: seen(s.row), insert: logOf(s.key, pass, [s.row]), due: null });
  },
});
const remove = things.state({
  ready: (eb) => eb("to_be_deleted", "=", true),
  onStale,
  process: async (s, services) => {
    const { how, pass } = await services.work(s.row.id);
    if (how === "retry") return s.retry("not yet");
    return s.apply({ delete: true, insert: logOf(s.key, pass, []) });
  },
});
const active = groups.state({
  ready: (eb) => eb("status", "=", "active"),
  locks: { members: groups.children("members", "group_id") },
  onStale,
  process: async (s, services) => {
    const { how, pass } = await services.work(s.row.id);
    if (how === "retry") return s.retry("not yet");
    return s.apply({
      set: seen(s.row),
      related: { members: s.related.members.map((m) => ({ id: m.id, set: grown(m) })) },
      insert: logOf(s.key, pass, [s.row, ...s.related.members]),
      due: null,
    });
  },
});
const closing = groups.state({
  ready: (eb) => eb("status", "=", "closing"),
  locks: { members: groups.children("members", "group_id", undefined, { reserve: true }) },
  onStale,
  process: async (s, services) => {
    const { how, pass } = await services.work(s.row.id);
    if (how === "retry") return s.retry("not yet");
    return s.apply({
      delete: true,
      related: { members: s.related.members.map((m) => ({ id: m.id, delete: true as const })) },
      insert: logOf(s.key, pass, []),
    });
  },
});
const tend = members.state({
  ready: (eb) => eb("status", "in", ["new", "idle"]),
  onStale,
  process: async (s, services) => {
    const { how, pass } = await services.work(s.row.id);
    if (how === "retry") return s.retry("not yet");
    return s.apply({ set: { ...seen(s.row), status: "idle" }, insert: logOf(s.key, pass, [s.row]), due: null });
  },
});
const waiting = tasks.state({
  ready: (eb) => eb("status", "=", "waiting"),
  locks: {
    member: tasks.pick("members", { group_id: "group_id" }, { where: (eb) => eb("busy", "<", 2), orderBy: ["busy"] }),
  },
  onStale,
  process: async (s, services) => {
    const { member } = s.related;
    const { how, pass } = await services.work(s.row.id);
    if (how === "retry") return s.retry("not yet");
    return s.apply({
      set: { ...seen(s.row), status: "running", member_id: member.id },
      related: { member: { set: { ...grown(member), busy: member.busy + 1 } } },
      insert: logOf(s.key, pass, [s.row, member]),
    });
  },
});
const running = tasks.state({
  ready: (eb) => eb("status", "=", "running"),
  locks: { members: tasks.parents("members", "member_ids") },
  onStale,
  process: async (s, services) => {
    const { how, pass } = await services.work(s.row.id);
    if (how === "retry") return s.retry("not yet");
    return s.apply({
      set: { ...seen(s.row), status: "ending" },
      related: { members: s.related.members.map((m) => ({ id: m.id, set: grown(m) })) },
      insert: logOf(s.key, pass, [s.row, ...s.related.members]),
      // somebody else's row is asked for something, in the same statement
      request: { groups: [{ id: s.row.group_id }] },
    });
  },
});
const ending = tasks.state({
  ready: (eb) => eb("status", "=", "ending"),
  locks: { member: tasks.parent("members", "member_id") },
  onStale,
  process: async (s, services) => {
    const { member } = s.related;
    const { how, pass } = await services.work(s.row.id);
    if (how === "retry") return s.retry("not yet");
    return s.apply({
      set: { ...seen(s.row), status: "done" },
      ...(member === null ? {} : { related: { member: { set: { ...grown(member), busy: member.busy - 1 } } } }),
      insert: logOf(s.key, pass, member === null ? [s.row] : [s.row, member]),
    });
  },
});
/** Only in the new code: takes up where the old code is done. */
const archived = tasks.state({
  ready: (eb) => eb.and([eb("status", "=", "done"), eb("grade", "=", 0)]),
  onStale,
  process: async (s, services) => {
    const { how, pass } = await services.work(s.row.id);
    if (how === "retry") return s.retry("not yet");
    return s.apply({ set: { ...seen(s.row), grade: 1 }, insert: logOf(s.key, pass, [s.row]), due: null });
  },
});

const OPTIONS: PipelineOptions = {
  workers: 4,
  batchSize: 2,
  processTimeoutSeconds: 60,
  backoff: { firstSeconds: 1, maxSeconds: 20 },
};

/** The pipelines of the old code, or of the new one. */
export const pipelinesOf = (version: "old" | "new"): Registry<Services> =>
  registry([
    things.pipeline("things", { provision, refresh, remove }, OPTIONS),
    things.pipeline("checks", { check }, OPTIONS),
    groups.pipeline("groups", { active, closing }, OPTIONS),
    members.pipeline("members", { tend }, { ...OPTIONS, yieldTo: [members.parent("groups", "group_id")] }),
    tasks.pipeline("tasks", { waiting, running }, OPTIONS),
    tasks.pipeline("endings", version === "old" ? { ending } : { ending, archived }, OPTIONS),
  ]);
