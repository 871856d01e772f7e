import { type RawBuilder, type Selectable, type SelectQueryBuilder, sql } from "kysely";
import { isUuid } from "../engine/item.ts";
import { MillraceError } from "../errors.ts";
import { uuid } from "../sql/parts.ts";

/** A page of a list, and where the next one begins; null = this was the last. */
export interface Page<Row> {
  readonly items: readonly Row[];
  readonly nextCursor: string | null;
}

/** Columns that rows of a list have in common, by value; null = `is null`, undefined = no condition. */
export type PageFilter<DB, T extends keyof DB> = {
  readonly [C in keyof Selectable<DB[T]> & string]?: Selectable<DB[T]>[C] | undefined;
};

/** A list, whatever its pages. */
export interface ListOptions<DB, T extends keyof DB & string> {
  /** The table that is listed; it has `id`, and the query answers each of its rows once. */
  readonly table: T;
  /** Ordered by this timestamp, ties by id the other way round. Rows without it are not listed. @default "created_at" */
  readonly by?: keyof Selectable<DB[T]> & string;
  /** @default "desc" */
  readonly direction?: "asc" | "desc";
  /** Only rows with these values. `explainPage` names the index that such a list needs. @default all */
  readonly filter?: PageFilter<DB, T>;
}

export interface PageOptions<DB, T extends keyof DB & string> extends ListOptions<DB, T> {
  /** Rows a page, from 1 on. */
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

/** What the engine reads beside the user's columns: the cursor of each row. */
interface Marks {
  readonly millrace_at: string;
  readonly millrace_id: string;
}

/**
 * The query of one page and of one row more. Beside the cursor's `or` stands the bound on the timestamp alone: it
 * changes no result, but an index scan can start from it (dstack, contributing/DATABASE.md).
 * @throws CURSOR_MALFORMED, OPTION
 */
export function pageQuery<DB, TB extends keyof DB, Row, T extends TB & string>(
  query: SelectQueryBuilder<DB, TB, Row>,
  options: PageOptions<DB, T>,
): SelectQueryBuilder<DB, TB, Row & Marks> {
  const { table, by = "created_at", direction = "desc", filter = {}, limit } = options;
  if (!Number.isInteger(limit) || limit < 1)
    throw new MillraceError("OPTION", {
      name: "paginate",
      option: "limit",
      value: limit,
      expected: "a whole number from 1 on",
    });
  const at = sql.ref(`${table}.${by}`);
  const id = sql.ref(`${table}.id`);
  const [order, tie] = direction === "asc" ? (["asc", "desc"] as const) : (["desc", "asc"] as const);
  let page = query.select([
    sql<string>`${at}::text`.as("millrace_at"),
    sql<string>`${id}::text`.as("millrace_id"),
  ]) as unknown as SelectQueryBuilder<DB, TB, Row & Marks>;
  for (const [name, value] of Object.entries(filter))
    if (value !== undefined) page = page.where(hasValue(sql.ref(`${table}.${name}`), value));
  // no cursor could say which of them were shown
  page = page.where(sql<boolean>`${at} is not null`);
  if (options.cursor !== undefined) {
    const from = decode(options.cursor);
    const time = sql`cast(cast(${from.at} as text) as timestamptz)`;
    const key = uuid(from.id);
    const [past, bound, after] = direction === "asc" ? [sql`>`, sql`>=`, sql`<`] : [sql`<`, sql`<=`, sql`>`];
    page = page.where(
      sql<boolean>`${at} ${bound} ${time} and (${at} ${past} ${time} or (${at} = ${time} and ${id} ${after} ${key}))`,
    );
  }
  return page.orderBy(sql`${at} ${sql.raw(order)}, ${id} ${sql.raw(tie)}`).limit(sql.lit(limit + 1) as never);
}

/**
 * A plan that is made without the value expects it in as many rows as an average value: of a column with a few values
 * in half of them, so that reading the newest rows and dropping others looks cheap. The range changes no result, and of
 * one of unknown ends the planner expects half a percent: it goes by the column.
 */
const hasValue = (column: RawBuilder<unknown>, value: unknown): RawBuilder<boolean> =>
  value === null
    ? sql<boolean>`${column} is null`
    : sql<boolean>`${column} = ${value} and ${column} >= ${value} and ${column} <= ${value}`;

/**
 * Runs a query page by page. Needs an index on the timestamp and id, in opposite directions: `(created_at desc, id)`; a
 * filter needs one that begins with its columns: `(status, created_at desc, id)`. A query that joins several rows to one
 * of the list selects them as a list (`jsonArrayFrom` of kysely/helpers/postgres), so that a page keeps its size.
 * @throws CURSOR_MALFORMED, OPTION, PAGE_ROW_TWICE
 */
export async function paginate<DB, TB extends keyof DB, Row, T extends TB & string>(
  query: SelectQueryBuilder<DB, TB, Row>,
  options: PageOptions<DB, T>,
): Promise<Page<Row>> {
  const { table, limit } = options;
  const rows = await pageQuery(query, options).execute();
  const twice = rows.find((row, n) => row.millrace_id === rows[n - 1]?.millrace_id);
  if (twice !== undefined) throw new MillraceError("PAGE_ROW_TWICE", { table, id: twice.millrace_id });
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const more = rows.length > limit && last !== undefined;
  return {
    items: shown.map(({ millrace_at: _, millrace_id: __, ...row }) => row as unknown as Row),
    nextCursor: more ? pageCursor({ at: last.millrace_at, id: last.millrace_id }) : null,
  };
}

/** Where a page begins: after this row. */
export const pageCursor = (cursor: Cursor): string =>
  Buffer.from(JSON.stringify([cursor.at, cursor.id])).toString("base64url");

function decode(text: string): Cursor {
  try {
    const [at, id] = JSON.parse(Buffer.from(text, "base64url").toString("utf8")) as unknown[];
    if (isTimestamp(at) && isUuid(id)) return { at, id };
  } catch (cause) {
    throw new MillraceError("CURSOR_MALFORMED", {}, { cause });
  }
  throw new MillraceError("CURSOR_MALFORMED");
}
