import { type SelectQueryBuilder, sql } from "kysely";
import { isUuid } from "../engine/item.ts";
import { MillraceError } from "../errors.ts";
import { uuid } from "../sql/parts.ts";

/** A page of a list, and where the next one begins; null = this was the last. */
export interface Page<Row> {
  readonly items: readonly Row[];
  readonly nextCursor: string | null;
}

export interface PageOptions<T extends string> {
  /** The table that is listed; it has `id`. */
  readonly table: T;
  /** Ordered by this timestamp, ties by id the other way round. @default "created_at" */
  readonly by?: string;
  /** @default "desc" */
  readonly direction?: "asc" | "desc";
  /** Rows a page. */
  readonly limit: number;
  /** From the page before. */
  readonly cursor?: string | undefined;
}

/** The cursor keeps the timestamp as text: a JavaScript date would lose its microseconds, and rows with them. */
interface Cursor {
  readonly at: string;
  readonly id: string;
}

const TIMESTAMP = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(\.\d{1,6})?[+-](0\d|1[0-5])(:?[0-5]\d)?$/;

/** A time as PostgreSQL writes it, of a day and an hour that exist. */
function isTimestamp(text: unknown): text is string {
  const [, day = "", time = ""] = (typeof text === "string" && TIMESTAMP.exec(text)) || [];
  const date = new Date(`${day}T${time}Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString() === `${day}T${time}.000Z` && !day.startsWith("0000");
}

/**
 * Runs a query page by page. Beside the cursor's `or` stands the bound on the timestamp alone: it changes no result, but
 * an index scan can start from it (dstack, contributing/DATABASE.md). A filter needs an index that starts with its
 * column and goes on with the timestamp.
 * @throws CURSOR_MALFORMED
 */
export async function paginate<DB, TB extends keyof DB, Row>(
  query: SelectQueryBuilder<DB, TB, Row>,
  options: PageOptions<TB & string>,
): Promise<Page<Row>> {
  const { table, by = "created_at", direction = "desc", limit } = options;
  const at = sql.ref(`${table}.${by}`);
  const id = sql.ref(`${table}.id`);
  const [order, tie] = direction === "asc" ? (["asc", "desc"] as const) : (["desc", "asc"] as const);
  let page = query.select([
    sql<string>`${at}::text`.as("millrace_at"),
    sql<string>`${id}::text`.as("millrace_id"),
  ]) as unknown as SelectQueryBuilder<DB, TB, Row & { millrace_at: string; millrace_id: string }>;
  if (options.cursor !== undefined) {
    const from = decode(options.cursor);
    const time = sql`cast(cast(${from.at} as text) as timestamptz)`;
    const key = uuid(from.id);
    const [past, bound, after] = direction === "asc" ? [sql`>`, sql`>=`, sql`<`] : [sql`<`, sql`<=`, sql`>`];
    page = page.where(
      sql<boolean>`${at} ${bound} ${time} and (${at} ${past} ${time} or (${at} = ${time} and ${id} ${after} ${key}))`,
    );
  }
  const rows = await page
    .orderBy(sql`${at} ${sql.raw(order)}, ${id} ${sql.raw(tie)}`)
    .limit(sql.lit(limit + 1) as never)
    .execute();
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const more = rows.length > limit && last !== undefined;
  return {
    items: shown.map(({ millrace_at: _, millrace_id: __, ...row }) => row as unknown as Row),
    nextCursor: more ? encode({ at: last.millrace_at, id: last.millrace_id }) : null,
  };
}

const encode = (cursor: Cursor): string => Buffer.from(JSON.stringify([cursor.at, cursor.id])).toString("base64url");

function decode(text: string): Cursor {
  try {
    const [at, id] = JSON.parse(Buffer.from(text, "base64url").toString("utf8")) as unknown[];
    if (isTimestamp(at) && isUuid(id)) return { at, id };
  } catch (cause) {
    throw new MillraceError("CURSOR_MALFORMED", {}, { cause });
  }
  throw new MillraceError("CURSOR_MALFORMED");
}
