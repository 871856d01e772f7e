import { NOW } from "../../lib/index.ts";
import { event } from "./events.ts";
import { jobs } from "./jobs.ts";
import { outputTail } from "./output-tail.ts";

/**
 * Keeps the output and gives everything back: the volumes that no other job has on the instance, the place, the
 * attachments. While the volumes are locked, nobody gets them for another job. Whatever is lost is done again.
 */
export const terminating = jobs.state({
  ready: (eb) => eb("status", "=", "terminating"),
  locks: {
    attachments: jobs.children("attachments", "job_id"),
    instance: jobs.parent("instances", "instance_id"),
    volumes: jobs.parents("volumes", "volume_ids"),
  },
  load: async (db, { row }) =>
    row.volume_ids.length === 0
      ? []
      : await db
          .selectFrom("attachments")
          .select("volume_id")
          .where("volume_id", "in", row.volume_ids)
          .where("job_id", "!=", row.id)
          .execute(),
  process: async ({ row, related: { attachments, instance, volumes }, extra: others, signal, apply }, { cloud }) => {
    const kept = row.command_id === null ? null : await outputTail(cloud, row.command_id, signal);
    const mine = volumes.filter(({ id }) => attachments.some(({ volume_id }) => volume_id === id));
    for (const { id, provider_id } of mine) {
      if (others.some(({ volume_id }) => volume_id === id)) continue;
      const attachment = { volumeId: provider_id ?? "", instanceId: instance?.provider_id ?? "" };
      await cloud.detachVolume(attachment, { signal });
    }
    const status = endOf(row);
    const busy = Math.max(0, (instance?.busy ?? 0) - 1);
    const idle = instance?.status === "busy" && busy === 0;
    return apply({
      set: { status, output: kept?.text ?? null, output_from: kept?.from ?? 0, finished_at: NOW },
      related: {
        attachments: attachments.map(({ id }) => ({ id, delete: true })),
        volumes: mine.map(({ id, attached }) => ({ id, set: { attached: attached - 1 } })),
        ...(instance === null ? {} : { instance: { set: { busy, ...(idle ? { status: "idle" } : {}) } } }),
      },
      insert: {
        events: [
          event("job", row, `Job ended: ${status}`),
          ...(instance !== null && idle
            ? [event("instance", instance, `Instance ${instance.number} became idle`)]
            : []),
        ],
      },
    });
  },
});

export const jobsTerminating = jobs.pipeline("jobs-terminating", { terminating }, { workers: 20 });

/** A command that was stopped and ended well all the same is done. */
function endOf({ exit_code, stop_requested, status_message }: Ended): "done" | "failed" | "terminated" {
  if (exit_code === 0) return "done";
  const stopped = stop_requested && (exit_code !== null || status_message?.startsWith("stopped") === true);
  return stopped ? "terminated" : "failed";
}

interface Ended {
  readonly exit_code: number | null;
  readonly stop_requested: boolean;
  readonly status_message: string | null;
}
