import { type Migration, sql } from "kysely";
import { addPipelineColumns } from "../../lib/index.ts";

/** The table of volumes, with the columns that its pipeline needs. */
export const createVolumes: Migration = {
  async up(db) {
    await db.schema
      .createTable("volumes")
      .addColumn("id", "uuid", (column) => column.primaryKey().defaultTo(sql`gen_random_uuid()`))
      .addColumn("name", "text", (column) => column.notNull())
      .addColumn("size_gb", "integer", (column) => column.notNull().check(sql`size_gb > 0`))
      .addColumn("status", "text", (column) =>
        column.notNull().defaultTo("submitted").check(sql`status in ('submitted', 'active')`),
      )
      .addColumn("status_message", "text")
      .addColumn("to_be_deleted", "boolean", (column) => column.notNull().defaultTo(false))
      .addColumn("provider_id", "text")
      .addColumn("activated_at", "timestamptz")
      .execute();
    await addPipelineColumns(db, "volumes");
    // The order of the list: newest first, ties by id; of everything, and of one status.
    await sql`create index volumes_newest on volumes (created_at desc, id)`.execute(db);
    await sql`create index volumes_newest_by_status on volumes (to_be_deleted, status, created_at desc, id)`.execute(
      db,
    );
  },
};
