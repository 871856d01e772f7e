import { CompiledQuery, type Kysely, type SelectQueryBuilder, sql } from "kysely";
import { MillraceError } from "../errors.ts";
import { type ListOptions, pageCursor, pageQuery } from "../write/paginate.ts";

/** How the pages of a list are read. */
export interface PagePlan {
  /** The index that a page begins in at its cursor, and follows. */
  readonly index: string;
}

/** A node of `explain (format json)`, as far as it is looked at. */
interface PlanNode {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly Alias?: string;
  readonly "Index Name"?: string;
  readonly "Index Cond"?: string;
  readonly Filter?: string;
  readonly "Join Filter"?: string;
  readonly Plans?: readonly PlanNode[];
}

/** Nothing but an index in the list's own order is then worth its price, however few rows a test's table has. */
const OTHER_WAYS = ["enable_bitmapscan", "enable_seqscan", "enable_sort", "enable_incremental_sort"];
const SOME_CURSOR = pageCursor({ at: "2026-01-01 00:00:00+00", id: "00000000-0000-4000-8000-000000000000" });

/**
 * Proves, without any rows, that every page of a list costs its own rows only: that an index has the list's order,
 * begins with the columns of the filter, and is entered at the cursor. Call it in a test for each list that
 * `paginate` answers, with the same query, and an example of each filter.
 * @throws PAGE_INDEX, which names the index that is missing
 */
export async function explainPage<DB, TB extends keyof DB, Row, T extends TB & string>(
  // biome-ignore lint/suspicious/noExplicitAny: the query knows its tables
  kysely: Kysely<any>,
  query: SelectQueryBuilder<DB, TB, Row>,
  options: ListOptions<DB, T>,
): Promise<PagePlan> {
  const { table, by = "created_at", filter = {} } = options;
  const wanted = [...Object.entries(filter).flatMap(([name, value]) => (value === undefined ? [] : [name])), by];
  return kysely.transaction().execute(async (db) => {
    const settings = OTHER_WAYS.map((name) => sql`set_config(${sql.lit(name)}, 'off', true)`);
    await sql`select ${sql.join(settings)}`.execute(db);
    const explain = async (cursor?: string) => {
      const page = pageQuery(query, { ...options, limit: 10, cursor }).compile();
      const explained = CompiledQuery.raw(`explain (format json) ${page.sql}`, [...page.parameters]);
      const { rows } = await db.executeQuery<{ "QUERY PLAN": unknown }>(explained);
      const plan = rows[0]!["QUERY PLAN"];
      const [{ Plan }] = (typeof plan === "string" ? JSON.parse(plan) : plan) as [{ Plan: PlanNode }];
      return pathTo(Plan, table);
    };
    const refuse = (problem: string): never => {
      const index = `create index on ${table} (${[...wanted.slice(0, -1), `${by} desc`, "id"].join(", ")})`;
      throw new MillraceError("PAGE_INDEX", { table, problem, index });
    };
    // the cursor's own `or` is a filter too: others show on the first page
    const first = await explain();
    const scan = first.at(-1);
    const index = scan?.["Index Name"];
    if (scan === undefined || index === undefined) return refuse("reads the whole table");
    if (first.some((node) => node["Node Type"].endsWith("Sort"))) refuse("sorts all rows");
    const filters = first.flatMap((node) => [node.Filter ?? [], node["Join Filter"] ?? []].flat());
    if (filters.length > 0) refuse(`reads rows only to drop them: ${filters.join(" and ")}`);
    const leading = await columnsBefore(db, index, by);
    const late = conditionColumns(scan).filter((column) => column !== by && !leading.includes(column));
    if (late.length > 0) refuse(`reads index entries only to drop them: ${late.join(", ")} comes after ${by}`);
    const next = (await explain(SOME_CURSOR)).at(-1);
    if (!new RegExp(`\\b${by} [<>]= `).test(next?.["Index Cond"] ?? "")) refuse("does not begin at the cursor");
    return { index };
  });
}

/** The nodes from the top down to the scan of the table; none where the table is not read. */
function pathTo(node: PlanNode, table: string): readonly PlanNode[] {
  if (node["Relation Name"] !== undefined && node.Alias === table) return [node];
  for (const below of node.Plans ?? []) {
    const path = pathTo(below, table);
    if (path.length > 0) return [node, ...path];
  }
  return [];
}

/** The columns in an index condition, such as `((kind = 'a'::text) AND (created_at IS NOT NULL))`. */
const conditionColumns = ({ "Index Cond": condition = "" }: PlanNode): readonly string[] => [
  ...new Set([...condition.matchAll(/\("?([a-z_][a-z0-9_]*)"? (?:[<>=]|IS)/gi)].map((match) => match[1]!)),
];

async function columnsBefore<DB>(db: Kysely<DB>, index: string, by: string): Promise<readonly string[]> {
  const { rows } = await sql<{ name: string }>`select a.attname::text as name from pg_attribute a
    where a.attrelid = to_regclass(quote_ident(${index})) order by a.attnum`.execute(db);
  const names = rows.map((row) => row.name);
  return names.slice(0, names.indexOf(by));
}
