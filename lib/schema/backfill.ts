import { type RawBuilder, sql } from "kysely";
import type { Database } from "../engine/ports.ts";
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
  /** Called after each batch with the rows done so far; throws to stop. */
  readonly progress?: (done: number) => Promise<void> | void;
}

/** Updates many rows in short statements, each its own transaction, in id order. Safe to repeat. Answers the rows set. */
export async function backfill(database: Database, job: Backfill): Promise<number> {
  const size = job.batchSize ?? 1000;
  let done = 0;
  let after = "00000000-0000-0000-0000-000000000000";
  for (;;) {
    const { rows } = await database.run(
      statement<{ rows: number; last: string | null }>(
        "backfill",
        "all",
        sql`with
seen as materialized (select t.id from ${table(job.table)} t where t.id > ${uuid(after)} and (${job.where}) order by t.id limit ${int(size)}),
held as materialized (select s.id from (select id from seen order by id) s cross join lateral (
  select 1 from ${table(job.table)} t where t.id = s.id and (${job.where}) for no key update) l),
upd as (update ${table(job.table)} t set ${job.set} from held h where t.id = h.id returning t.id)
select (select count(*) from upd)::int as rows, (select s.id::text from seen s order by s.id desc limit 1) as last`,
      ),
      { patient: true },
    );
    const answer = rows[0];
    if (!answer || answer.last === null) return done;
    done += answer.rows;
    after = answer.last;
    await job.progress?.(done);
  }
}
