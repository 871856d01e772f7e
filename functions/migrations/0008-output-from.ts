import { type Migration, sql } from "kysely";

/** Where the kept part of a job's output begins: who has read a part of the output already goes on at the right byte. */
export const addOutputFrom: Migration = {
  async up(db) {
    await sql`alter table jobs add column output_from bigint not null default 0 check (output_from >= 0)`.execute(db);
  },
};
