import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from "kysely";
import type pg from "pg";
import type { Statement } from "../../lib/sql/statement.ts";

/** What one execution cost, and which tables it read whole. */
export interface Cost {
  /** Pages of 8 kB that were looked at, cached or not; planning not counted. */
  readonly buffers: number;
  readonly planMs: number;
  readonly executeMs: number;
  /** `things 1000000 rows` for each sequential scan of more than a small table, and each index scan in vain. */
  readonly scans: readonly string[];
}

export const PLAN_MODES = ["custom", "generic"] as const;
export type PlanMode = (typeof PLAN_MODES)[number];

/** A table of so many rows has a few dozen pages: reading it whole, once or more often, is no worse than many lookups. */
const SMALL_TABLE = 1_100;
/** More rows than this must not be read in vain through an index. */
const HANDFUL = 50;

const compiler = new Kysely<unknown>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
});

interface PlanNode {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Actual Rows": number;
  readonly "Actual Loops": number;
  readonly "Rows Removed by Filter"?: number;
  readonly Plans?: readonly PlanNode[];
}

let prepared = 0;

/** Prepares with every parameter declared as text, as the Data API does, executes, and rolls back. */
export async function explain(client: pg.Client, statement: Statement<unknown>, mode: PlanMode): Promise<Cost> {
  const { sql, parameters } = statement.query.compile(compiler);
  const name = `s${prepared++}`;
  const types = parameters.length === 0 ? "" : `(${parameters.map(() => "text").join(", ")})`;
  const values = parameters.map((value) => (value === null ? "null" : `'${String(value).replaceAll("'", "''")}'`));
  const execute = `execute ${name}${values.length === 0 ? "" : `(${values.join(", ")})`}`;
  await client.query(`set plan_cache_mode = force_${mode}_plan`);
  await client.query(`prepare ${name}${types} as ${sql}`);
  try {
    const explained = await rolledBack(client, `explain (analyze, buffers, timing off, format json) ${execute}`);
    const { Plan, ...times } = (explained[0] as { "QUERY PLAN": [Record<string, unknown>] })["QUERY PLAN"][0];
    // the plan's own figures leave out what runs after the last row: updates that nobody reads
    await client.query("select pg_stat_statements_reset()");
    await rolledBack(client, execute);
    const counted = await client.query<{ buffers: string | null }>(
      `select sum(s.shared_blks_hit + s.shared_blks_read) as buffers from pg_stat_statements s
        join pg_database d on d.oid = s.dbid and d.datname = current_database() where s.query like '%/* millrace:%'`,
    );
    return {
      buffers: Number(counted.rows[0]?.buffers ?? Number.NaN),
      planMs: times["Planning Time"] as number,
      executeMs: times["Execution Time"] as number,
      scans: wholeScans(Plan as PlanNode),
    };
  } finally {
    await client.query(`deallocate ${name}`);
  }
}

async function rolledBack(client: pg.Client, text: string): Promise<readonly unknown[]> {
  await client.query("begin");
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.query("rollback");
  }
}

function wholeScans(node: PlanNode): string[] {
  const below = (node.Plans ?? []).flatMap(wholeScans);
  const wasted = (node["Rows Removed by Filter"] ?? 0) * node["Actual Loops"];
  const read = wasted + node["Actual Rows"] * node["Actual Loops"];
  const relation = node["Relation Name"];
  if (relation === undefined) return below;
  const whole = node["Node Type"] === "Seq Scan" && read / Math.max(1, node["Actual Loops"]) > SMALL_TABLE;
  const inVain = node["Node Type"] !== "Seq Scan" && wasted > HANDFUL;
  return whole || inVain ? [`${node["Node Type"]} of ${read} rows of ${relation}`, ...below] : below;
}
