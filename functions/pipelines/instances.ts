import { NOW, pipelinesFor } from "../../lib/index.ts";
import { event } from "./events.ts";
import type { Database } from "./schema.ts";
import type { Services } from "./services.ts";

const { state, parent, pipeline } = pipelinesFor<Database, Services>().on("instances");

/** A machine that is not to be reached so long after it was made is given up, and replaced. */
const START_SECONDS = 900;

/**
 * Creates the instance at the cloud. Nothing has to be undone when the apply is lost: the next attempt has the same
 * `key` and finds the instance, and a termination finds it by its tag.
 */
export const pending = state({
  ready: (eb) => eb("status", "=", "pending"),
  load: (db, { row }) =>
    db.selectFrom("fleets").select("name").where("id", "=", row.fleet_id).executeTakeFirstOrThrow(),
  process: async ({ row, extra: fleet, key, signal, apply }, { cloud }) => {
    const { id } = await cloud.createInstance({ key, tag: row.id, name: `${fleet.name}-${row.number}` }, { signal });
    return apply({
      set: { status: "provisioning", provider_id: id, provisioned_at: NOW },
      insert: { events: [event("instance", row, `Instance ${row.number} was created`)] },
    });
  },
});

/** Waits until it is up. */
export const provisioning = state({
  ready: (eb) => eb("status", "=", "provisioning"),
  everySeconds: 1,
  process: async ({ row, now, signal, apply }, { cloud }) => {
    const giveUp = (reason: string) =>
      apply({
        set: { status: "terminating", status_message: `instance ${row.number} ${reason}` },
        insert: { events: [event("instance", row, `Instance ${row.number} was given up: it ${reason}`)] },
        request: { fleets: [{ id: row.fleet_id }] },
      });
    const found = await cloud.instanceState(row.provider_id ?? "", { signal });
    if (found === "gone") return giveUp("is gone");
    if (found === "running")
      return apply({
        set: { status: "idle" },
        insert: { events: [event("instance", row, `Instance ${row.number} became idle`)] },
      });
    const seconds = (now.getTime() - (row.provisioned_at ?? now).getTime()) / 1000;
    return seconds > START_SECONDS ? giveUp(`was not up after ${START_SECONDS / 60} minutes`) : apply({});
  },
});

/**
 * Sees whether it is still there. One that died is given up, and its fleet told, which makes another; its jobs find
 * their commands lost, and give their places back.
 */
export const serving = state({
  ready: (eb) => eb("status", "in", ["idle", "busy"]),
  everySeconds: 15,
  process: async ({ row, signal, apply }, { cloud }) => {
    if ((await cloud.instanceState(row.provider_id ?? "", { signal })) !== "gone") return apply({});
    return apply({
      set: { status: "terminating", status_message: `instance ${row.number} is gone` },
      insert: { events: [event("instance", row, `Instance ${row.number} was gone`)] },
      request: { fleets: [{ id: row.fleet_id }] },
    });
  },
});

/** Deletes by tag, as volumes do: a creation whose apply was lost has left no id in the row. The fleet removes the row. */
export const terminating = state({
  ready: (eb) => eb.and([eb("status", "=", "terminating"), eb("busy", "=", 0)]),
  process: async ({ row, signal, apply }, { cloud }) => {
    await cloud.deleteInstance({ tag: row.id, name: `instance ${row.number}` }, { signal });
    return apply({
      set: { status: "terminated" },
      insert: { events: [event("instance", row, `Instance ${row.number} was terminated`)] },
      request: { fleets: [{ id: row.fleet_id }] },
    });
  },
});

export const instances = pipeline(
  "instances",
  { pending, provisioning, serving, terminating },
  { workers: 20, yieldTo: [parent("fleets", "fleet_id")] },
);
