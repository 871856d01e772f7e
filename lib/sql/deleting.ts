import { sql } from "kysely";
import type { Sql } from "./parts.ts";

/**
 * CTE `deleting`: tells the fence of a table that this statement deletes rows whose tokens it has compared. It holds for
 * this transaction only, which is this statement.
 */
export const DELETING: Sql = sql`deleting as materialized (select set_config('millrace.deleting', 'on', true) as told)`;

/** The fence has been told. Every `delete` must ask: a CTE that nobody reads is never run. */
export const TOLD: Sql = sql`(select told from deleting) is not null`;
