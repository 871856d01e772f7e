import type { Selectable } from "kysely";
import { NOW, pipelinesFor } from "../../lib/index.ts";
import { event } from "./events.ts";
import { UNFINISHED } from "./jobs.ts";
import type { Database } from "./schema.ts";
import type { Services } from "./services.ts";

const { state, children, pipeline } = pipelinesFor<Database, Services>().on("fleets");
const instances = children("instances", "fleet_id");

type Instance = Selectable<Database["instances"]>;
const isLive = ({ status }: Pick<Instance, "status">) => status !== "terminating" && status !== "terminated";
const isTerminated = ({ status }: Pick<Instance, "status">) => status === "terminated";

/** Seconds until another look at jobs that are in the way. */
const LOOK_SECONDS = 5;

/**
 * Keeps as many instances as are wanted. Locks them only when there is something to do: while all is well, jobs and
 * instances go on undisturbed.
 */
export const active = state({
  ready: (eb) => eb("to_be_deleted", "=", false),
  locks: { instances },
  decide: async (db, { row }) => {
    const all = await db.selectFrom("instances").select("status").where("fleet_id", "=", row.id).execute();
    return all.filter(isLive).length !== row.nodes || all.some(isTerminated) ? ["instances"] : [];
  },
  process: ({ row, related, apply }) => {
    if (related.instances === undefined)
      return apply(row.status_message === null ? {} : { set: { status_message: null } });
    const live = related.instances.filter(isLive);
    const gone = related.instances.filter(isTerminated).map(({ id }) => ({ id, delete: true as const }));
    const added = numbers(related.instances, row.nodes - live.length).map((number) => ({
      id: crypto.randomUUID(),
      fleet_id: row.id,
      number,
      slots: row.slots,
      provider_id: null,
      provisioned_at: null,
      status_message: null,
    }));
    const surplus = unused(live).slice(0, Math.max(0, live.length - row.nodes));
    const inUse = live.length + added.length - surplus.length - row.nodes;
    const changed = added.length + surplus.length > 0;
    return apply({
      set: {
        status_message: inUse > 0 ? `waits for the jobs of ${inUse} of its instances` : null,
        ...(changed ? { resized_at: NOW } : {}),
      },
      related: { instances: [...gone, ...surplus.map(({ id }) => terminate(id, `fleet ${row.name} became smaller`))] },
      insert: {
        instances: added,
        events: [
          ...added.map((one) => event("instance", one, `Instance ${one.number} was added to fleet ${row.name}`)),
          ...surplus.map((one) => event("instance", one, `Instance ${one.number} was given up by fleet ${row.name}`)),
        ],
      },
      ...(inUse > 0 ? { due: LOOK_SECONDS } : {}),
    });
  },
});

/**
 * Stops the jobs and gives every instance up; one that jobs have goes when they have ended. The row goes last. A job
 * that is submitted meanwhile finds itself without a fleet, and fails.
 */
export const deleting = state({
  ready: (eb) => eb("to_be_deleted", "=", true),
  locks: { instances },
  load: (db, { row }) =>
    db
      .selectFrom("jobs")
      .select(["id", "stop_requested"])
      .where("fleet_id", "=", row.id)
      .where("status", "in", UNFINISHED)
      .execute(),
  process: ({ row, related, extra: jobs, apply }) => {
    const live = related.instances.filter(isLive);
    const gone = related.instances.filter(isTerminated).map(({ id }) => ({ id, delete: true as const }));
    const over = jobs.length === 0 && gone.length === related.instances.length;
    const stop = jobs.filter((job) => !job.stop_requested).map(({ id }) => ({ id, set: { stop_requested: true } }));
    return apply({
      ...(over ? { delete: true } : { due: LOOK_SECONDS }),
      related: { instances: [...gone, ...live.map(({ id }) => terminate(id, `fleet ${row.name} is being deleted`))] },
      ...(stop.length > 0 ? { request: { jobs: stop } } : {}),
      insert: {
        events: [
          ...live.map((one) => event("instance", one, `Instance ${one.number} was given up by fleet ${row.name}`)),
          ...(over ? [event("fleet", row, `Fleet ${row.name} was deleted`)] : []),
        ],
      },
    });
  },
});

export const fleets = pipeline("fleets", { active, deleting }, { workers: 20 });

const terminate = (id: string, status_message: string) => ({
  id,
  set: { status: "terminating" as const, status_message },
});

/** The lowest numbers that no instance has, those on their way out included. */
function numbers(all: readonly Instance[], count: number): readonly number[] {
  const taken = new Set(all.map(({ number }) => number));
  const free: number[] = [];
  for (let number = 1; free.length < count; number++) if (!taken.has(number)) free.push(number);
  return free;
}

/** Instances without a job: first those that are not up yet, of each kind the highest numbers first. */
function unused(live: readonly Instance[]): readonly Instance[] {
  const up = ({ status }: Instance) => (status === "idle" ? 1 : 0);
  return live.filter(({ busy }) => busy === 0).sort((a, b) => up(a) - up(b) || b.number - a.number);
}
