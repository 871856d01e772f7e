import { sql } from "kysely";
import { rows, table } from "./parts.ts";
import { type Statement, statement } from "./statement.ts";

export interface RelatedRow extends Readonly<Record<string, unknown>> {
  /** Main row under whose token the row is locked. */
  readonly millrace_item: string;
}

/** Reads related rows that stand under the token of their main row, by id. */
export function relatedRowsSql(
  name: string,
  keys: readonly { readonly item: string; readonly token: string; readonly id: string }[],
): Statement<RelatedRow> {
  return statement(
    "related",
    name,
    sql`select x.item as millrace_item, t.* from ${rows(keys, { item: "uuid", token: "uuid", id: "uuid" })} x
join ${table(name)} t on t.id = x.id and t.lock_token = x.token order by t.id`,
  );
}
