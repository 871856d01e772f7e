import { NOW, pipelinesFor } from "../../lib/index.ts";
import { event } from "./events.ts";
import type { Database } from "./schema.ts";
import type { Services } from "./services.ts";

const { state, pipeline } = pipelinesFor<Database, Services>().on("volumes");

/**
 * Creates the volume at the cloud. Nothing has to be undone when the apply is lost: the next attempt has the same
 * `key` and finds the volume, and a deletion finds it by its tag.
 */
export const submitted = state({
  ready: (eb) => eb.and([eb("status", "=", "submitted"), eb("to_be_deleted", "=", false)]),
  process: async ({ row, key, signal, apply }, { cloud }) => {
    const { id } = await cloud.createVolume({ key, tag: row.id, name: row.name, sizeGb: row.size_gb }, { signal });
    return apply({
      set: { status: "active", provider_id: id, activated_at: NOW },
      insert: { events: [event("volume", row, `Volume ${row.name} became active`)] },
    });
  },
});

/**
 * Deletes by tag, not by `provider_id`: a creation whose apply was lost has left no id in the row. Then the row goes.
 * A volume that jobs have is in no state: the end of the last of them makes it ready, and due at once.
 */
export const deleting = state({
  ready: (eb) => eb.and([eb("to_be_deleted", "=", true), eb("attached", "=", 0)]),
  process: async ({ row, signal, apply }, { cloud }) => {
    await cloud.deleteVolume({ tag: row.id, name: row.name }, { signal });
    return apply({ delete: true, insert: { events: [event("volume", row, `Volume ${row.name} was deleted`)] } });
  },
});

export const volumes = pipeline("volumes", { submitted, deleting }, { workers: 20, maxAttempts: 5 });
