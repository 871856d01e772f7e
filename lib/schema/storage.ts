import { sql } from "kysely";

/**
 * Storage of tables whose rows are locked and unlocked all the time: room for HOT updates, and a vacuum by number of
 * dead rows, not by share of the table: the queue index grows dead entries at the very end where each fetch begins
 * (https://www.postgresql.org/docs/17/routine-vacuuming.html#AUTOVACUUM).
 */
export const QUEUE_STORAGE = sql.raw(
  "fillfactor = 90, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000",
);
