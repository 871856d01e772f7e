import { Kysely, PostgresDialect, sql } from "kysely";
import type pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type PageOptions, paginate } from "../../../lib/index.ts";
import { createTestDatabase, type TestDatabase } from "../../support/test-database.ts";

interface Schema {
  entries: { id: string; created_at: Date; kind: string };
}
type Options = Omit<PageOptions<Schema, "entries">, "table" | "limit">;

const ROWS = 1_000_000;
const RARE = 20;
const LIMIT = 10;

let database: TestDatabase;
let client: pg.Client;
let spied: Kysely<Schema>;
const sent: { readonly sql: string; readonly parameters: readonly unknown[] }[] = [];

/** A million rows, ten of each instant; twenty of one kind, one in every 50,000. */
beforeAll(async () => {
  database = await createTestDatabase();
  client = await database.connect();
  await client.query(
    `create table entries (id uuid primary key default gen_random_uuid(), created_at timestamptz not null, kind text not null);
     insert into entries (created_at, kind) select timestamptz '2026-01-01 00:00:00+00' + (g / 10) * interval '1 s',
       case when g % ${ROWS / RARE} = 777 then 'rare' else 'common' end from generate_series(1, ${ROWS}) g;
     create index by_time on entries (created_at desc, id);
     create index by_kind on entries (kind, created_at desc, id);
     analyze entries;
     set plan_cache_mode = force_generic_plan`,
  );
  spied = new Kysely<Schema>({
    dialect: new PostgresDialect({ pool: database.ownerPool }),
    log: ({ query }) => void sent.push(query),
  });
});
afterAll(() => database.drop());

interface Node {
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly "Index Cond"?: string;
  readonly "Actual Rows": number;
  readonly "Actual Loops": number;
  readonly "Rows Removed by Filter"?: number;
  readonly Plans?: readonly Node[];
}

const scansOf = (node: Node): readonly Node[] => [
  ...(node["Relation Name"] === undefined ? [] : [node]),
  ...(node.Plans ?? []).flatMap(scansOf),
];

/** One page, and what a generic plan of its statement reads: planned without knowing the cursor. */
async function explained(options: Options, where = sql<boolean>`true`) {
  const query = spied.selectFrom("entries").select(["entries.id", "kind"]).where(where);
  const page = await paginate(query, { table: "entries", limit: LIMIT, ...options });
  const { sql: text, parameters } = sent.pop()!;
  const types = parameters.length === 0 ? "" : `(${parameters.map(() => "text").join(", ")})`;
  const values = parameters.length === 0 ? "" : `(${parameters.map((p) => `'${p}'`).join(", ")})`;
  await client.query(`prepare page${types} as ${text}`);
  const { rows } = await client.query(`explain (analyze, format json) execute page${values}`);
  await client.query("deallocate page");
  const scans = scansOf(rows[0]["QUERY PLAN"][0].Plan);
  const read = scans.reduce(
    (sum, s) => sum + (s["Actual Rows"] + (s["Rows Removed by Filter"] ?? 0)) * s["Actual Loops"],
    0,
  );
  return { page, scans, read };
}

const cursor = (at: string, id = "80000000-0000-4000-8000-000000000000") =>
  Buffer.from(JSON.stringify([at, id])).toString("base64url");
const OLDEST = cursor("2026-01-01 00:01:00+00");
const NEWEST = cursor("2026-01-02 03:45:00+00");

describe("a late cursor in a million rows", () => {
  test.each([
    ["desc", OLDEST, /created_at <= /],
    ["asc", NEWEST, /created_at >= /],
  ] as const)("%s: the index scan starts there", async (direction, from, bound) => {
    const { page, scans, read } = await explained({ direction, cursor: from });
    expect(page.items).toHaveLength(LIMIT);
    expect(scans.map((s) => s["Index Name"])).toEqual(["by_time"]);
    expect(scans[0]!["Index Cond"]).toMatch(bound);
    // those of the cursor's own instant are read and dropped
    expect(read).toBeLessThanOrEqual(LIMIT + 1 + 10);
  });
});

describe("a filter that twenty rows of a million match", () => {
  async function wholeList(direction: "asc" | "desc") {
    const found: string[] = [];
    let from: string | undefined;
    let most = 0;
    do {
      const { page, scans, read } = await explained({ direction, filter: { kind: "rare" }, cursor: from });
      expect(scans.map((s) => s["Index Name"])).toEqual(["by_kind"]);
      most = Math.max(most, read);
      found.push(...page.items.map((row) => row.id));
      from = page.nextCursor ?? undefined;
    } while (from !== undefined);
    return { found, most };
  }

  test.each(["asc", "desc"] as const)(
    "%s: no page reads more than twice its rows, where an index begins with its column",
    async (direction) => {
      const { found, most } = await wholeList(direction);
      expect(new Set(found).size).toBe(RARE);
      expect(most).toBeLessThanOrEqual(2 * LIMIT);
    },
  );

  test("control: where no index serves the condition a page reads thousands of rows", async () => {
    const { read } = await explained({}, sql<boolean>`kind || '' = 'rare'`);
    expect(read).toBeGreaterThan(1000);
  });
});
