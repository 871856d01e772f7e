import { Kysely, sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { type DataApiCalls, mendedDialect } from "../../../lib/adapters/data-api-dialect.ts";
import { connect } from "../../support/engine.ts";
import { createTestDatabase, type TestDatabase } from "../../support/test-database.ts";

interface Odd {
  id: string;
  label: string | null;
  big: bigint | string | null;
  small: number | null;
  exact: string | number | null;
  ratio: number | null;
  raw: Uint8Array | null;
  spec: object | null;
  plain: Date | string | null;
  zoned: Date | string | null;
  opened: boolean | null;
}

let database: TestDatabase;
let db: Kysely<{ odd: Odd }>;
beforeAll(async () => {
  database = await createTestDatabase();
  await database.ownerPool.query(
    `create table odd (id uuid primary key default gen_random_uuid(), label text unique, big bigint, small int, exact numeric, ratio float8,
      raw bytea, spec jsonb, plain timestamp, zoned timestamptz, opened boolean)`,
  );
  db = connect<{ odd: Odd }>(database, database.dataApiConfig.ownerSecretArn).kysely;
});
afterAll(() => database.drop());
beforeEach(() => database.ownerPool.query("truncate odd"));

const id = "11111111-2222-4333-8444-555555555555";
const stored = async (column: string) =>
  (await database.ownerPool.query(`select ${column}::text as v from odd`)).rows.map((r) => r.v);
const put = (values: Partial<Odd>) =>
  db
    .insertInto("odd")
    .values({ id, ...values } as Odd)
    .returningAll()
    .executeTakeFirstOrThrow();

// first of all: Kysely warns once a process
test("nobody is warned of an outdated driver", async () => {
  const warnings = [vi.spyOn(console, "warn"), vi.spyOn(console, "log"), vi.spyOn(console, "error")];
  await put({});
  await db.selectFrom("odd").selectAll().execute();
  await db.deleteFrom("odd").execute();
  expect(warnings.flatMap((w) => w.mock.calls)).toEqual([]);
  vi.restoreAllMocks();
});

describe("values go and come exactly", () => {
  test("bigint beyond what a number holds", async () => {
    expect((await put({ big: 2n ** 53n + 1n })).big).toBe("9007199254740993");
    expect(await stored("big")).toEqual(["9007199254740993"]);
    expect(await db.selectFrom("odd").select("id").where("big", "=", 9007199254740993n).execute()).toHaveLength(1);
    expect(await db.selectFrom("odd").select("id").where("big", "=", 9007199254740992n).execute()).toHaveLength(0);
    expect((await put({ id: crypto.randomUUID(), big: -(2n ** 63n) })).big).toBe("-9223372036854775808");
  });

  test("int4 is a number, numeric a string that keeps its scale", async () => {
    expect(await put({ small: -42, exact: 1.5 })).toMatchObject({ small: -42, exact: "1.5" });
    await sql`update odd set exact = cast(${"12345678901234567890.1200"} as numeric)`.execute(db);
    expect(await db.selectFrom("odd").select("exact").execute()).toEqual([{ exact: "12345678901234567890.1200" }]);
  });

  test("numbers with fractions, and NaN", async () => {
    expect((await put({ ratio: 0.1 })).ratio).toBe(0.1);
    await db.updateTable("odd").set({ ratio: Number.NaN }).execute();
    expect(await stored("ratio")).toEqual(["NaN"]);
    await db.updateTable("odd").set({ ratio: 1e300 }).execute();
    expect(await stored("ratio")).toEqual(["1e+300"]);
  });

  test("bytes", async () => {
    const raw = new Uint8Array([0, 255, 16]);
    expect(Buffer.from((await put({ raw })).raw!)).toEqual(Buffer.from(raw));
    expect(await db.selectFrom("odd").select("id").where("raw", "=", raw).execute()).toHaveLength(1);
  });

  test.each([
    { a: [1, null, "x"], 'k"ey': { deep: true } },
    { value: { stringValue: "x" }, name: "p0", typeHint: "UUID" },
    { value: { longValue: 0 } },
    { isNull: true },
    {},
  ])("the JSON object %j, also one that looks like a parameter", async (spec) => {
    expect((await put({ spec })).spec).toEqual(spec);
    expect(await db.selectFrom("odd").select("id").where("spec", "=", spec).execute()).toHaveLength(1);
  });

  test("true, false, null and text that looks like a placeholder", async () => {
    expect(await put({ opened: false, label: "it's :p0 ?", small: null })).toMatchObject({
      opened: false,
      label: "it's :p0 ?",
      small: null,
    });
  });

  test.each([undefined, Symbol("s"), [1, 2], new Date("nonsense")])("%s is refused", async (value) => {
    await expect(sql`select ${value}`.execute(db)).rejects.toMatchObject({ code: "VALUE_UNSUPPORTED" });
  });
});

describe("times", () => {
  const at = new Date("2026-03-29T01:30:00.123Z");

  test("timestamptz and timestamp are UTC, whatever zone the process is in", async () => {
    vi.stubEnv("TZ", "America/New_York");
    try {
      expect(new Date("2026-01-01T00:00:00").getTimezoneOffset()).toBe(300);
      expect(await put({ plain: at, zoned: at })).toMatchObject({ plain: at, zoned: at });
      expect(await stored("plain || ' ' || zoned at time zone 'UTC'")).toEqual([
        "2026-03-29 01:30:00.123 2026-03-29 01:30:00.123",
      ]);
      expect(await db.selectFrom("odd").select("id").where("zoned", "=", at).execute()).toHaveLength(1);
    } finally {
      vi.unstubAllEnvs();
    }
  });

  test("a time without fraction, and one with microseconds", async () => {
    await database.ownerPool.query(
      "insert into odd (plain, zoned) values ('2026-01-01', '2026-01-01 00:00:00.123456+00')",
    );
    expect(await db.selectFrom("odd").select(["plain", "zoned"]).execute()).toEqual([
      { plain: new Date("2026-01-01T00:00:00Z"), zoned: new Date("2026-01-01T00:00:00.123Z") },
    ]);
  });
});

describe("a string that looks like a uuid", () => {
  test("fits uuid columns: insert, where, in, update, delete", async () => {
    await put({ label: "x" });
    const other = crypto.randomUUID();
    expect(await db.selectFrom("odd").select("label").where("id", "=", id).execute()).toEqual([{ label: "x" }]);
    expect(await db.selectFrom("odd").select("label").where("id", "in", [other, id]).execute()).toHaveLength(1);
    await db.updateTable("odd").set({ id: other }).where("id", "=", id).execute();
    expect(await stored("id")).toEqual([other]);
    const gone = await db.deleteFrom("odd").where("id", "=", other.toUpperCase()).executeTakeFirst();
    expect(gone.numDeletedRows).toBe(1n);
  });

  test("fits text columns", async () => {
    await put({ label: id });
    expect(await db.selectFrom("odd").select("label").where("label", "=", id).execute()).toEqual([{ label: id }]);
    await db.updateTable("odd").set({ label: crypto.randomUUID() }).where("label", "in", [id]).execute();
    expect(await stored("label")).not.toEqual([id]);
  });

  test("a quote in anything near it is no way out of the literal", async () => {
    const evil = `${id}' or true --`;
    await put({ label: "x" });
    expect(await db.selectFrom("odd").select("id").where("label", "=", evil).execute()).toEqual([]);
  });
});

test("comparing a bigint column with a bigint uses its index", async () => {
  await database.ownerPool.query("create index odd_big on odd (big)");
  await database.ownerPool.query("insert into odd (big) select g from generate_series(1, 20000) g");
  await database.ownerPool.query("analyze odd");
  const plan = await sql<{ "QUERY PLAN": string }>`explain select 1 from odd where big = ${77n}`.execute(db);
  expect(plan.rows.map((r) => r["QUERY PLAN"]).join()).toMatch(/Index.* odd_big/);
});

describe("how many rows", () => {
  test("were written, with and without returning", async () => {
    const values = [1, 2, 3].map((small) => ({ id: crypto.randomUUID(), small }) as Odd);
    expect((await db.insertInto("odd").values(values).executeTakeFirst()).numInsertedOrUpdatedRows).toBe(3n);
    const updated = await db.updateTable("odd").set({ label: null }).where("small", ">", 1).executeTakeFirst();
    expect(updated.numUpdatedRows).toBe(2n);
    expect(await db.deleteFrom("odd").where("small", "=", 9).executeTakeFirst()).toMatchObject({ numDeletedRows: 0n });
    expect(await db.updateTable("odd").set({ label: null }).returning("id").execute()).toHaveLength(3);
  });

  test("also where the service describes no columns by an empty list", async () => {
    const answer = { numberOfRecordsUpdated: 4, columnMetadata: [], records: [], $metadata: {} };
    const { resourceArn, secretArn } = { resourceArn: "a", secretArn: "b" };
    const calls = { executeStatement: async () => answer } as unknown as DataApiCalls;
    const fake = new Kysely<{ odd: Odd }>({ dialect: mendedDialect(calls, { resourceArn, secretArn, database: "d" }) });
    expect((await fake.deleteFrom("odd").executeTakeFirst()).numDeletedRows).toBe(4n);
  });
});
