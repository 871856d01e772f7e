import { type RawBuilder, sql } from "kysely";

/**
 * One step of the protocol: one SQL statement, hence one Data API call, one transaction and one `now()`. Every
 * statement is safe to send twice: a repetition after a lost answer gives the first answer or does nothing.
 */
export interface Statement<Row> {
  /** Step and subject, as in the statement's leading comment: `claim volumes`. */
  readonly name: string;
  readonly query: RawBuilder<Row>;
}

/** Names a query by a leading comment, so that it can be counted from outside (pg_stat_statements keeps it). */
export function statement<Row>(step: string, subject: string, query: RawBuilder<Row>): Statement<Row> {
  if (!/^[a-z0-9_ -]+$/.test(`${step} ${subject}`)) throw new TypeError(`no name of a statement: ${step} ${subject}`);
  return { name: `${step} ${subject}`, query: sql<Row>`${sql.raw(`/* millrace:${step} ${subject} */`)} ${query}` };
}
