import { Kysely, PostgresDialect } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { paginate } from "../../../lib/index.ts";
import { connect } from "../../support/engine.ts";
import { createTestDatabase, type TestDatabase } from "../../support/test-database.ts";

interface Schema {
  entries: { id: string; created_at: Date; seen_at: Date | null; kind: string };
}

let database: TestDatabase;
let db: Kysely<Schema>;
beforeAll(async () => {
  database = await createTestDatabase();
  await database.ownerPool.query(
    `create table entries (id uuid primary key default gen_random_uuid(), created_at timestamptz not null default now(), seen_at timestamptz default now(), kind text not null default 'a');
     create index by_time on entries (created_at desc, id asc)`,
  );
  db = connect<Schema>(database, database.dataApiConfig.secretArn).kysely;
});
afterAll(() => database.drop());
beforeEach(() => database.ownerPool.query("truncate entries"));

type Options = Partial<Parameters<typeof paginate<Schema, "entries", { id: string }>>[1]>;
const page = (options: Options = {}, kind?: string) => {
  const all = db.selectFrom("entries").select("entries.id");
  const query = kind === undefined ? all : all.where("kind", "=", kind);
  return paginate(query, { table: "entries", limit: 10, ...options });
};
/** Every page until the last, as the ids of each. */
async function pages(options: Options = {}, kind?: string, between?: () => Promise<unknown>): Promise<string[][]> {
  const found: string[][] = [];
  let cursor: string | undefined;
  do {
    const { items, nextCursor } = await page({ ...options, ...(cursor && { cursor }) }, kind);
    found.push(items.map((i) => i.id));
    cursor = nextCursor ?? undefined;
    await between?.();
  } while (cursor !== undefined);
  return found;
}
const sorted = async (order: string, where = "true") =>
  (await database.ownerPool.query(`select id from entries where ${where} order by ${order}`)).rows.map((r) => r.id);
const fill = (rows: number, at: string, kind = "'a'") =>
  database.ownerPool.query(
    `insert into entries (created_at, seen_at, kind) select ${at}, ${at}, ${kind} from generate_series(1, ${rows}) g`,
  );

describe("every row exactly once, in order", () => {
  test("that differ by a microsecond: none is lost where a JavaScript date would lose it", async () => {
    await fill(30, "timestamptz '2026-01-01 00:00:00.123+00' + g * interval '1 microsecond'");
    expect((await pages({ limit: 7 })).flat()).toEqual(await sorted("created_at desc, id asc"));
  });

  test("ties go by id the other way round, in both directions", async () => {
    await fill(25, "timestamptz '2026-01-01 00:00:00+00'");
    expect((await pages({ limit: 4 })).flat()).toEqual(await sorted("id asc"));
    expect((await pages({ limit: 4, direction: "asc" })).flat()).toEqual(await sorted("id desc"));
  });

  test("250 rows, ties and all", async () => {
    await fill(250, "timestamptz '2026-01-01 00:00:00+00' + (g / 7) * interval '1 s'");
    for (const [direction, order] of [
      ["desc", "created_at desc, id asc"],
      ["asc", "created_at asc, id desc"],
    ] as const) {
      const found = await pages({ limit: 20, direction });
      expect(found.map((p) => p.length)).toEqual([...Array(12).fill(20), 10]);
      expect(found.flat()).toEqual(await sorted(order));
    }
  });

  test("rows inserted meanwhile with the same instant shift nothing", async () => {
    await fill(250, "timestamptz '2026-01-01 00:00:00+00' + (g / 50) * interval '1 s'");
    const before = await sorted("created_at desc, id asc");
    const found = await pages({ limit: 20 }, undefined, () =>
      fill(3, "timestamptz '2026-01-01 00:00:00+00' + (g % 5) * interval '1 s'"),
    );
    const seen = found.flat();
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.filter((id) => before.includes(id))).toEqual(before);
  });

  test("of a filter", async () => {
    await fill(
      40,
      "timestamptz '2026-01-01 00:00:00+00' + (g / 3) * interval '1 s'",
      "case g % 2 when 0 then 'a' else 'b' end",
    );
    expect((await pages({ limit: 6 }, "b")).flat()).toEqual(await sorted("created_at desc, id asc", "kind = 'b'"));
  });

  test("by another timestamp", async () => {
    await fill(12, "timestamptz '2026-01-01 00:00:00+00' - g * interval '1 s'");
    expect((await pages({ limit: 5, by: "seen_at", direction: "asc" })).flat()).toEqual(
      await sorted("seen_at asc, id desc"),
    );
  });
});

describe("the last page", () => {
  test.each([
    [0, [0]],
    [10, [10]],
    [11, [10, 1]],
  ])("of %i rows, ten a page: %j", async (rows, lengths) => {
    await fill(rows, "now() - g * interval '1 s'");
    expect((await pages()).map((p) => p.length)).toEqual(lengths);
  });

  test("items carry what was selected and nothing of ours", async () => {
    await fill(1, "now()");
    expect(Object.keys((await page()).items[0]!)).toEqual(["id"]);
  });
});

const cursor = (...parts: unknown[]) => Buffer.from(JSON.stringify(parts)).toString("base64url");
const id = crypto.randomUUID();
test.each([
  ["", "empty"],
  ["%%%", "no base64"],
  [Buffer.from("{").toString("base64url"), "no JSON"],
  [Buffer.from("null").toString("base64url"), "null"],
  [Buffer.from("7").toString("base64url"), "a number"],
  [cursor(), "nothing in it"],
  [cursor("2026-01-01 00:00:00+00"), "no id"],
  [cursor("2026-01-01 00:00:00+00", "x"), "an id that is none"],
  [cursor("2026-01-01 00:00:00+00", 7), "a number for an id"],
  [cursor(7, id), "a number for a time"],
  [cursor("now", id), "a word for a time"],
  [cursor("infinity", id), "no finite time"],
  [cursor("2026-02-30 00:00:00+00", id), "a day that does not exist"],
  [cursor("2026-13-01 00:00:00+00", id), "a month that does not exist"],
  [cursor("2026-01-01 25:00:00+00", id), "an hour that does not exist"],
  [cursor("0000-01-01 00:00:00+00", id), "a year that does not exist"],
  [cursor("2026-01-01 00:00:00+99", id), "a zone that does not exist"],
  [cursor("2026-01-01 00:00:00+00'; drop table entries --", id), "more than a time"],
])("%s is no cursor: %s", async (text) => {
  await expect(page({ cursor: text })).rejects.toMatchObject({ code: "CURSOR_MALFORMED", status: 400 });
});

test("an index scan starts at the cursor: the rows before it are not read and thrown away", async () => {
  await fill(20_000, "timestamptz '2026-01-01 00:00:00+00' + (g / 10) * interval '1 s'");
  await database.ownerPool.query("analyze entries");
  const sent: { readonly sql: string; readonly parameters: readonly unknown[] }[] = [];
  const spied = new Kysely<Schema>({
    dialect: new PostgresDialect({ pool: database.ownerPool }),
    log: ({ query }) => void sent.push(query),
  });
  const from = cursor("2026-01-01 00:15:00+00", "00000000-0000-4000-8000-000000000000");
  for (const direction of ["desc", "asc"] as const) {
    const query = spied.selectFrom("entries").select("entries.id");
    expect((await paginate(query, { table: "entries", limit: 10, cursor: from, direction })).items).toHaveLength(10);
    const { sql, parameters } = sent.pop()!;
    const plan = await database.ownerPool.query(`explain (analyze, format json) ${sql}`, [...parameters]);
    const text = JSON.stringify(plan.rows);
    expect(text).toMatch(/"Index Cond":"\(created_at [<>]=/);
    const removed = [...text.matchAll(/"Rows Removed by Filter":(\d+)/g)].reduce((sum, m) => sum + Number(m[1]), 0);
    // at most those of the cursor's own instant
    expect(removed).toBeLessThanOrEqual(10);
  }
});
