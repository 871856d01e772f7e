import { NOW, type ReadDb } from "../../lib/index.ts";
import type { Cloud } from "../cloud/cloud.ts";
import { CloudError } from "../cloud/errors.ts";
import { event } from "./events.ts";
import { jobs } from "./jobs.ts";
import type { Database } from "./schema.ts";

/** Between asking a command to end and ending it. */
const GRACE_SECONDS = 10;

/** Refusals that would be the same another time: what was asked is wrong. */
const FINAL = ["BAD_COMMAND", "BAD_REQUEST", "BAD_VOLUME", "NAME_TAKEN", "VOLUME_GONE"];

/** The instance that the job has a place on. It cannot be gone from the table, because the job counts in its `busy`. */
const placeOf = async (db: ReadDb<Database>, { row }: { readonly row: { readonly instance_id: string | null } }) =>
  db
    .selectFrom("instances")
    .select(["id", "number", "provider_id"])
    .where("id", "=", row.instance_id)
    .executeTakeFirstOrThrow();

/**
 * Attaches the volumes that the placement has written down; a repetition finds them attached. A job that is stopped here
 * has run nothing: `command_key` is stored before the cloud is first asked to run the command.
 */
export const preparing = jobs.state({
  ready: (eb) => eb.and([eb("status", "=", "provisioning"), eb("command_key", "is", null)]),
  load: async (db, loaded) => ({
    instance: await placeOf(db, loaded),
    volumes: await volumesOf(db, loaded.row.id),
  }),
  process: async ({ row, extra: { instance, volumes }, key, signal, apply }, { cloud }) => {
    if (row.stop_requested)
      return apply({
        set: { status: "terminating", status_message: "stopped before it ran" },
        insert: { events: [event("job", row, "Job was stopped before it ran")] },
      });
    const gone = await whenGone(cloud, instance, signal, async (instanceId) => {
      for (const { id } of volumes) await cloud.attachVolume({ volumeId: id, instanceId }, { signal });
    });
    if (gone !== undefined) return apply(failed(row, gone, instance));
    return apply({ set: { command_key: key } });
  },
});

/**
 * Has the command run. Every attempt has the same `command_key` and finds what an earlier one started. A job that is
 * stopped here is started all the same: an attempt before may have done it, and only this tells the id by which the next
 * pass stops it.
 */
export const starting = jobs.state({
  ready: (eb) => eb.and([eb("status", "=", "provisioning"), eb("command_key", "is not", null)]),
  load: async (db, loaded) => ({
    instance: await placeOf(db, loaded),
    volumes: await volumesOf(db, loaded.row.id),
  }),
  process: async ({ row, extra: { instance, volumes }, signal, apply }, { cloud }) => {
    let id = "";
    try {
      const gone = await whenGone(cloud, instance, signal, async (instanceId) => {
        const request = { key: row.command_key ?? "", instanceId, command: row.command, volumes };
        ({ id } = await cloud.runCommand(request, { signal }));
      });
      if (gone !== undefined) return apply(failed(row, gone, instance));
    } catch (error) {
      if (!(error instanceof CloudError && FINAL.includes(String(error.details["code"])))) throw error;
      return apply(failed(row, error.message));
    }
    return apply({
      set: { status: "running", command_id: id, started_at: NOW },
      insert: { events: [event("job", row, `Job started on instance ${instance.number}`)] },
    });
  },
});

/** Watches the command: every second at first, then every five. */
export const running = jobs.state({
  ready: (eb) => eb("status", "=", "running"),
  everySeconds: 5,
  load: placeOf,
  process: async ({ row, extra: instance, now, signal, apply }, { cloud }) => {
    const commandId = row.command_id ?? "";
    const found = await cloud.commandState(commandId, { signal });
    if (found.state === "exited") {
      const why = row.stop_requested ? "stopped" : null;
      return apply({
        set: { status: "terminating", exit_code: found.exitCode, status_message: why },
        insert: { events: [event("job", row, `Job exited with code ${found.exitCode}`)] },
      });
    }
    if (found.state === "lost") {
      const gone = (await cloud.instanceState(instance.provider_id ?? "", { signal })) === "gone";
      return apply(failed(row, gone ? `instance ${instance.number} is gone` : found.reason, instance));
    }
    // asked in every pass until it ends: that gives it no more time, and an answer may have been lost
    if (row.stop_requested) {
      await cloud.stopCommand(commandId, GRACE_SECONDS, { signal });
      return apply({ due: 1 });
    }
    const seconds = (now.getTime() - (row.started_at ?? now).getTime()) / 1000;
    return apply(seconds < 15 ? { due: 1 } : {});
  },
});

export const jobsRunning = jobs.pipeline("jobs-running", { preparing, starting, running }, { workers: 40 });

/** The volumes that the job has by its attachments: the cloud's id of each, and the name of its folder. */
async function volumesOf(db: ReadDb<Database>, jobId: string) {
  const found = await db
    .selectFrom("attachments")
    .innerJoin("volumes", "volumes.id", "attachments.volume_id")
    .select(["volumes.provider_id", "volumes.name"])
    .where("attachments.job_id", "=", jobId)
    .orderBy("volumes.id")
    .execute();
  return found.map(({ provider_id, name }) => ({ id: provider_id ?? "", name }));
}

/**
 * Does something on an instance; answers why it could not when the instance is gone. An error says that in as many ways
 * as there are clouds, so the instance is looked at. Any other error is thrown.
 */
async function whenGone(
  cloud: Cloud,
  { number, provider_id }: { readonly number: number; readonly provider_id: string | null },
  signal: AbortSignal,
  work: (instanceId: string) => Promise<void>,
): Promise<string | undefined> {
  const instanceId = provider_id ?? "";
  try {
    await work(instanceId);
    return undefined;
  } catch (error) {
    if (!(error instanceof CloudError && error.code === "CLOUD_REFUSED")) throw error;
    if ((await cloud.instanceState(instanceId, { signal })) !== "gone") throw error;
    return `instance ${number} is gone`;
  }
}

/** The end of a job that did not come to an exit code. The instance looks at itself, so that it is replaced at once. */
function failed(row: { readonly id: string }, reason: string, instance?: { readonly id: string }) {
  return {
    set: { status: "terminating" as const, status_message: reason },
    insert: { events: [event("job", row, `Job failed: ${reason}`)] },
    ...(instance === undefined ? {} : { request: { instances: [{ id: instance.id }] } }),
  };
}
