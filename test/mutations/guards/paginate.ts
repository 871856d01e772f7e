// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is source text
import type { Mutation } from "../mutation.ts";
import { writers } from "../test-files.ts";

const page = "lib/write/paginate.ts";
const explain = "lib/testing/explain-page.ts";
const pages = writers("paginate");
const plans = writers("paginate-plans");
const explained = ["test/integration/testing/explain-page.test.ts"];

export const mutations: readonly Mutation[] = [
  {
    file: page,
    remove: "${at} ${bound} ${time} and ",
    tests: plans,
    guard: "an index scan starts at the cursor",
  },
  {
    file: page,
    remove: "sql<string>`${at}::text`",
    by: "sql<string>`date_trunc('milliseconds', ${at})::text`",
    tests: pages,
    guard: "the cursor keeps microseconds",
  },
  {
    file: page,
    remove: " or (${at} = ${time} and ${id} ${after} ${key})",
    tests: pages,
    guard: "ties are not lost between pages",
  },
  {
    file: page,
    remove: "isTimestamp(at) && isUuid(id)",
    by: "typeof at === 'string' && isUuid(id)",
    tests: pages,
    guard: "the cursor's time is checked",
  },
  {
    file: page,
    remove: "isTimestamp(at) && isUuid(id)",
    by: "isTimestamp(at)",
    tests: pages,
    guard: "the cursor's id is checked",
  },
  {
    file: page,
    remove: " and ${column} >= ${value} and ${column} <= ${value}",
    tests: plans,
    guard: "a page of a filter goes by the filter's index",
  },
  {
    file: page,
    remove: "  page = page.where(sql<boolean>`${at} is not null`);\n",
    tests: pages,
    guard: "rows without the timestamp hide no others",
  },
  {
    file: page,
    remove: 'if (twice !== undefined) throw new MillraceError("PAGE_ROW_TWICE", { table, id: twice.millrace_id });',
    tests: pages,
    guard: "a join that multiplies rows is refused",
  },
  {
    file: explain,
    remove: ', "enable_seqscan"',
    by: "",
    tests: explained,
    guard: "an empty table shows which index a list has",
  },
  {
    file: explain,
    remove: '    if (filters.length > 0) refuse(`reads rows only to drop them: ${filters.join(" and ")}`);\n',
    tests: explained,
    guard: "a filter without an index is refused",
  },
  {
    file: explain,
    remove: 'if (first.some((node) => node["Node Type"].endsWith("Sort"))) refuse("sorts all rows");',
    tests: explained,
    guard: "a list that sorts is refused",
  },
  {
    file: explain,
    remove: "    if (late.length > 0)",
    by: "    if (late.length > 9)",
    tests: explained,
    guard: "a filter column at the index's end is refused",
  },
];
