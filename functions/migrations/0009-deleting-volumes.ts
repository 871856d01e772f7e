import { type Migration, sql } from "kysely";

/** The list of volumes that are being deleted, of whatever status: few of many. */
export const indexDeletingVolumes: Migration = {
  async up(db) {
    await sql`create index volumes_newest_deleting on volumes (created_at desc, id) where to_be_deleted`.execute(db);
  },
};
