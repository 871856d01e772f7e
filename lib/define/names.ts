/* Which texts can be names at all: what comes from outside is looked up, logged and answered only when it is one. */

const PIPELINE = /^[a-z][a-z0-9-]{0,62}$/;
/** PostgreSQL: the longest identifier, in bytes. */
const MOST_TABLE_BYTES = 63;

export const isPipelineName = (value: unknown): value is string => typeof value === "string" && PIPELINE.test(value);

/** A table's name as PostgreSQL can have it. */
export const isTableName = (value: unknown): value is string =>
  typeof value === "string" &&
  value !== "" &&
  value.isWellFormed() &&
  !/\p{Cc}/u.test(value) &&
  Buffer.byteLength(value) <= MOST_TABLE_BYTES;
