import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Calls, callsTo } from "../../support/data-api-calls.ts";
import { createTestDatabase, type TestDatabase } from "../../support/test-database.ts";

let db: TestDatabase;
let calls: Calls;

beforeAll(async () => {
  db = await createTestDatabase();
  await db.ownerPool.query("create table t (name text)");
  calls = callsTo(db);
});
afterAll(() => db.drop());

const message = (call: Promise<unknown>) =>
  call.then(
    () => "no error",
    (error: Error) => `${error.name} ${error.message}`,
  );
const select = (expression: string) => calls.field(`select ${expression}`);

describe("records formatted as JSON", () => {
  const json = async (sql: string, extra = {}) =>
    (await calls.execute(sql, {}, { formatRecordsAs: "JSON", ...extra })) as {
      formattedRecords: string;
      records?: unknown;
    };

  test("one object a row, and no records", async () => {
    const answer = await json(
      "select 9007199254740993 as l, 1.50 as d, 'a' as t, true as b, null as n, array[1,2] as a, '\\x00ff'::bytea as y, '2024-01-15 12:34:56+09'::timestamptz as z",
    );
    expect(answer.formattedRecords).toBe(
      '[{"l":9007199254740993,"d":"1.50","t":"a","b":true,"n":null,"a":[1,2],"y":"AP8=","z":"2024-01-15 03:34:56"}]',
    );
    expect(answer).not.toHaveProperty("records");
    expect(answer).not.toHaveProperty("columnMetadata");
  });

  test("names must differ", async () => {
    expect(await message(json("select 1 as a, 2 as a"))).toMatch(/^BadRequestException /);
  });

  test("it is ignored for other statements", async () => {
    expect((await json("insert into t (name) values ('j') returning name")).records).toEqual([[{ stringValue: "j" }]]);
  });

  test("more than 1 MB is fine, more than 10 MB is not", async () => {
    const answer = await json("select repeat('x', 2000000) as v");
    expect(answer.formattedRecords).toHaveLength(2_000_010);
    const sql = "select repeat('x', 1000) as v from generate_series(1, 11000)";
    expect(await message(json(sql))).toBe("BadRequestException Database response exceeded size limit");
  });
});

describe("the size of a result", () => {
  const rows = (count: number) => calls.execute(`select gen_random_uuid() from generate_series(1, ${count})`);
  const TOO_LARGE = "UnsupportedResultException The result exceeds the size limit 1 MB.";

  test("2 bytes a row, 4 a column, and the text: 1,048,576 and no more", async () => {
    // 42 bytes for a row with one uuid.
    expect((await rows(24_966)).records).toHaveLength(24_966);
    expect(await message(rows(24_967))).toBe(TOO_LARGE);
    const cell = (size: number) => calls.execute(`select repeat('x', ${size})`);
    expect((await cell(1_048_570)).records).toHaveLength(1);
    expect(await message(cell(1_048_571))).toBe(TOO_LARGE);
  });

  test("octets count, not characters", async () => {
    expect(await message(calls.execute("select repeat('ä', 600000)"))).toBe(TOO_LARGE);
  });

  test("a row above 64 KB is returned", async () => {
    expect(await select("length(repeat('x', 100000))")).toEqual({ longValue: 100_000 });
    expect((await select("repeat('x', 100000)")).stringValue).toHaveLength(100_000);
  });
});
