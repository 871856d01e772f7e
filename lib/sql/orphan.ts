import { sql } from "kysely";
import { int, text, uuid } from "./parts.ts";
import { type Statement, statement } from "./statement.ts";

/** What the lost apply of one pass may have left behind at a provider. */
export interface Orphan {
  /** The pass. */
  readonly token: string;
  readonly pipeline: string;
  readonly item_id: string;
  /** `stale`: the apply was lost for certain. `unknown`: it may have been accepted. */
  readonly outcome: "stale" | "unknown";
  /** As the state's `orphan` names it. */
  readonly what: string;
  readonly found_at: Date;
}

/** Notes an orphan, once for each pass: a repetition changes nothing. */
export function noteOrphanSql(orphan: Omit<Orphan, "found_at">): Statement<never> {
  const { token, pipeline, item_id, outcome, what } = orphan;
  return statement(
    "orphan",
    pipeline,
    sql`insert into millrace.orphans (token, pipeline, item_id, outcome, what)
values (${uuid(token)}, ${text(pipeline)}, ${uuid(item_id)}, ${text(outcome)}, cast(${what} as text)) on conflict (token) do nothing`,
  );
}

/** The newest orphans that nobody has settled. */
export function orphansSql(limit: number): Statement<Orphan> {
  return statement(
    "orphans",
    "all",
    sql`select o.token, o.pipeline, o.item_id, o.outcome, o.what, o.found_at from millrace.orphans o order by o.found_at desc, o.token limit ${int(limit)}`,
  );
}

/** Somebody has looked after it: it is not listed any more. */
export function settleOrphanSql(token: string): Statement<{ readonly token: string }> {
  return statement(
    "settle",
    "all",
    sql`delete from millrace.orphans o where o.token = ${uuid(token)} returning o.token`,
  );
}
