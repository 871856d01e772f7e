import { type RawBuilder, sql } from "kysely";
import type { Clock, Database } from "../engine/ports.ts";
import { int, type Sql, table, uuid } from "../sql/parts.ts";
import { statement } from "../sql/statement.ts";

export interface Backfill {
  readonly table: string;
  /** What to set, for a table aliased `t`: `sql\`x = 1\``. */
  readonly set: Sql;
  /** Which rows still need it, for a table aliased `t`; must no longer hold once it is set. */
  readonly where: RawBuilder<unknown>;
  /** Rows a statement. @default 1000 */
  readonly batchSize?: number;
  /**
   * For columns that a fence manages: rows that somebody holds are left for later, and looked for again every second by
   * this clock until each has had its turn; a lock that has expired is cleared. @default held rows are written too
   */
  readonly whenFree?: Clock;
  /** Called after each batch with the rows done so far; throws to stop. */
  readonly progress?: (done: number) => Promise<void> | void;
}

const BEFORE_ALL = "00000000-0000-0000-0000-000000000000";
const LOOK_AGAIN_MS = 1000;
/** An owner without a token stays: it holds nothing. */
const CLEAR = sql`, lock_token = null, lock_expires_at = null, lock_owner = case when t.lock_token is null then t.lock_owner end`;

/** Updates many rows in short statements, each its own transaction, in id order. Safe to repeat. Answers the rows set. */
export async function backfill(database: Database, job: Backfill): Promise<number> {
  const size = job.batchSize ?? 1000;
  const free = job.whenFree === undefined ? sql`true` : sql`(t.lock_token is null or t.lock_expires_at < now())`;
  const unlock = job.whenFree === undefined ? sql`` : CLEAR;
  let done = 0;
  let left = 0;
  let after = BEFORE_ALL;
  for (;;) {
    const { rows } = await database.run(
      statement<{ rows: number; left: number; last: string | null }>(
        "backfill",
        "all",
        sql`with
seen as materialized (select t.id from ${table(job.table)} t where t.id > ${uuid(after)} and (${job.where}) order by t.id limit ${int(size)}),
held as materialized (select s.id from (select id from seen order by id) s cross join lateral (
  select 1 from ${table(job.table)} t where t.id = s.id and (${job.where}) and ${free} for no key update) l),
upd as (update ${table(job.table)} t set ${job.set}${unlock} from held h where t.id = h.id returning t.id)
select (select count(*) from upd)::int as rows, (select count(*) from seen)::int - (select count(*) from held)::int as "left", (select s.id::text from seen s order by s.id desc limit 1) as last`,
      ),
      { patient: true },
    );
    const answer = rows[0];
    if (!answer || answer.last === null) {
      if (left === 0 || job.whenFree === undefined) return done;
      await job.whenFree.wait(LOOK_AGAIN_MS);
      [left, after] = [0, BEFORE_ALL];
      continue;
    }
    done += answer.rows;
    left += answer.left;
    after = answer.last;
    await job.progress?.(done);
  }
}
