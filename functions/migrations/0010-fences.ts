import type { Migration } from "kysely";
import { fenceTable } from "../../lib/index.ts";

/**
 * The database refuses whoever writes past a lock. Open are what people ask for, and the keys that the deletion of a
 * fleet or an instance sets to null.
 */
export const fenceTables: Migration = {
  async up(db) {
    await fenceTable(db, "volumes", { intent: ["to_be_deleted"] });
    await fenceTable(db, "fleets", { intent: ["to_be_deleted"] });
    await fenceTable(db, "instances");
    await fenceTable(db, "jobs", { intent: ["stop_requested", "fleet_id", "instance_id"] });
    await fenceTable(db, "attachments");
  },
};
