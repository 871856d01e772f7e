import { type Migration, sql } from "kysely";

/** Volumes are looked for by name. */
export const indexVolumeNames: Migration = {
  async up(db) {
    await sql`create index volumes_newest_by_name on volumes (name, created_at desc, id)`.execute(db);
  },
};
