import { NOW } from "../../lib/index.ts";
import { event } from "./events.ts";
import { jobs } from "./jobs.ts";

/**
 * Places the job: a free place on the first instance of its fleet, and its volumes there. No free place is contention,
 * so the job comes again within seconds.
 *
 * The cloud is not asked for anything here. Where the job goes and which volumes it has there is written first, and
 * carried out by `jobs-running`: whatever crashes, it is known what must be given back, and a lost apply leaves nothing.
 */
export const waiting = jobs.state({
  ready: (eb) => eb.and([eb("status", "=", "submitted"), eb("stop_requested", "=", false)]),
  locks: {
    instance: jobs.pick(
      "instances",
      { fleet_id: "fleet_id" },
      {
        where: (eb) => eb.and([eb("status", "in", ["idle", "busy"]), eb("busy", "<", eb.ref("slots"))]),
        orderBy: ["number"],
      },
    ),
    volumes: jobs.parents("volumes", "volume_ids"),
  },
  decide: async (db, { row }) => {
    if (row.fleet_id === null) return [];
    if (row.volume_ids.length === 0) return ["instance"];
    const found = await db.selectFrom("volumes").select("to_be_deleted").where("id", "in", row.volume_ids).execute();
    // what can never be had is not waited for
    const all = found.length === new Set(row.volume_ids).size && !found.some((volume) => volume.to_be_deleted);
    return all ? ["instance", "volumes"] : [];
  },
  load: async (db, { row }) =>
    row.volume_ids.length === 0
      ? []
      : await db
          .selectFrom("attachments")
          .innerJoin("instances", "instances.id", "attachments.instance_id")
          .innerJoin("volumes", "volumes.id", "attachments.volume_id")
          .select(["attachments.instance_id", "instances.number", "volumes.name"])
          .where("attachments.volume_id", "in", row.volume_ids)
          .execute(),
  process: ({ row, related: { instance, volumes = [] }, extra: attached, apply, retry }) => {
    const leaving = volumes.find((volume) => volume.to_be_deleted);
    if (instance === undefined || leaving !== undefined) {
      const reason = row.fleet_id === null ? "its fleet is gone" : "a volume of it is gone or being deleted";
      return apply({
        set: { status: "failed", status_message: reason, finished_at: NOW },
        insert: { events: [event("job", row, `Job failed: ${reason}`)] },
      });
    }
    const early = volumes.find((volume) => volume.status !== "active");
    if (early !== undefined) return retry(`volume ${early.name} is not active yet`);
    const elsewhere = attached.find((one) => one.instance_id !== instance.id);
    if (elsewhere !== undefined) return retry(`volume ${elsewhere.name} is attached to instance ${elsewhere.number}`);
    return apply({
      set: { status: "provisioning", instance_id: instance.id },
      related: {
        instance: { set: { status: "busy", busy: instance.busy + 1 } },
        ...(volumes.length > 0
          ? { volumes: volumes.map(({ id, attached }) => ({ id, set: { attached: attached + 1 } })) }
          : {}),
      },
      insert: {
        attachments: volumes.map(({ id }) => ({ volume_id: id, instance_id: instance.id, job_id: row.id })),
        events: [
          event("job", row, `Job was placed on instance ${instance.number}`),
          ...(instance.status === "busy"
            ? []
            : [event("instance", instance, `Instance ${instance.number} became busy`)]),
        ],
      },
    });
  },
});

/** Stopped before it had a place. */
export const cancelled = jobs.state({
  ready: (eb) => eb.and([eb("status", "=", "submitted"), eb("stop_requested", "=", true)]),
  process: ({ row, apply }) =>
    apply({
      set: { status: "terminated", status_message: "stopped before it was placed", finished_at: NOW },
      insert: { events: [event("job", row, "Job was stopped before it was placed")] },
    }),
});

export const jobsSubmitted = jobs.pipeline("jobs-submitted", { waiting, cancelled }, { workers: 20 });
