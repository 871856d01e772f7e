import type { Field } from "@aws-sdk/client-rds-data";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Calls, callsTo, type Parameters } from "../../support/data-api-calls.ts";
import { createTestDatabase, type TestDatabase } from "../../support/test-database.ts";

const UUID = "7b0b7b0e-0b0a-4f0e-9f2c-2d3a4b5c6d7e";
let db: TestDatabase;
let calls: Calls;

beforeAll(async () => {
  db = await createTestDatabase();
  await db.ownerPool.query(`
    create type mood as enum ('glad', 'sad');
    create table t (i4 int, i8 bigint, n numeric, u uuid, ts timestamp, tz timestamptz, d date, jb jsonb, tx text,
      b boolean, by bytea, ta text[], m mood)`);
  calls = callsTo(db);
});
afterAll(() => db.drop());

const message = (call: Promise<unknown>) =>
  call.then(
    () => "no error",
    (error: Error) => `${error.name} ${error.message}`,
  );

describe("a string without a hint is text and nothing else", () => {
  test.each(["i4", "i8", "n", "u", "ts", "tz", "d", "jb", "b", "by", "ta", "m"])(
    "insert into column %s: 42804",
    async (column) => {
      const text = await message(calls.execute(`insert into t (${column}) values (:v)`, { v: { stringValue: UUID } }));
      expect(text).toMatch(
        /^DatabaseErrorException ERROR: column "\w+" is of type .+ but expression is of type text; /,
      );
      expect(text).toMatch(/; Hint: You will need to rewrite or cast the expression.; Position: \d+; SQLState: 42804$/);
    },
  );

  test("uuid = text: 42883, worded as the service does", async () => {
    const text = await message(calls.execute("select * from t where u = :v", { v: { stringValue: UUID } }));
    expect(text).toBe(
      "DatabaseErrorException ERROR: operator does not exist: uuid = text; Hint: No operator matches the given name and argument types. You might need to add explicit type casts.; Position: 25; SQLState: 42883",
    );
  });

  test.each([
    ["select 1 limit :v", "42804"],
    ["select now() - :v", "42883"],
    ["select 1 from t where i4 = any(:v)", "42809"],
    ["select coalesce(u, :v) from t", "42804"],
  ])("%s: %s", async (sql, state) => {
    expect(await message(calls.execute(sql, { v: { stringValue: "1" } }))).toContain(`SQLState: ${state}`);
  });

  test("control: a cast in the SQL makes it work", async () => {
    await calls.execute("insert into t (u, m) values (:u::uuid, cast(:m as mood))", {
      u: { stringValue: UUID },
      m: { stringValue: "glad" },
    });
    expect(await calls.field("select u from t where m = :m::mood", { m: { stringValue: "glad" } })).toEqual({
      stringValue: UUID,
    });
  });
});

describe("each Field is declared with its own type", () => {
  const typed: [string, Parameters[string], string][] = [
    ["stringValue", { stringValue: "a" }, "text"],
    ["longValue", { longValue: 1 }, "bigint"],
    ["doubleValue", { doubleValue: 1.5 }, "double precision"],
    ["booleanValue", { booleanValue: false }, "boolean"],
    ["blobValue", { blobValue: new Uint8Array([0, 255]) }, "bytea"],
    ["JSON hint", [{ stringValue: "{}" }, "JSON"], "jsonb"],
    ["UUID hint", [{ stringValue: UUID }, "UUID"], "uuid"],
    ["TIMESTAMP hint", [{ stringValue: "2024-01-15 12:34:56.789" }, "TIMESTAMP"], "timestamp without time zone"],
    ["DATE hint", [{ stringValue: "2024-01-15" }, "DATE"], "date"],
    ["TIME hint", [{ stringValue: "12:34:56" }, "TIME"], "time without time zone"],
    ["DECIMAL hint", [{ stringValue: "1.50" }, "DECIMAL"], "numeric"],
  ];

  test.each(typed)("%s", async (_, value, type) => {
    expect(await calls.field("select cast(pg_typeof(:v) as text)", { v: value })).toEqual({ stringValue: type });
  });

  test("a long against int, a double against bigint", async () => {
    expect(await calls.field("select 2::int4 = :v", { v: { longValue: 2 } })).toEqual({ booleanValue: true });
    const left = calls.execute("select left('abc', :v)", { v: { longValue: 2 } });
    expect(await message(left)).toContain("function left(unknown, bigint) does not exist");
  });

  test("a long keeps all its digits", async () => {
    const v = { longValue: 9007199254740993n as unknown as number };
    expect(await calls.field("select cast(:v as text)", { v })).toEqual({ stringValue: "9007199254740993" });
  });

  test("NaN and infinite doubles can be sent", async () => {
    const sql = "select cast(:v as text)";
    expect(await calls.field(sql, { v: { doubleValue: Number.NaN } })).toEqual({ stringValue: "NaN" });
    expect(await calls.field(sql, { v: { doubleValue: -Infinity } })).toEqual({ stringValue: "-Infinity" });
  });

  test("bytes arrive as they are", async () => {
    const v = { blobValue: new Uint8Array([0, 1, 254, 255]) };
    expect(await calls.field("select encode(:v, 'hex')", { v })).toEqual({ stringValue: "0001feff" });
  });
});

describe("null is untyped", () => {
  test("it fits any column", async () => {
    const columns = ["i4", "u", "ta", "jb", "m"];
    const sql = `insert into t (${columns.join(", ")}) values (${columns.map((name) => `:${name}`).join(", ")})`;
    const nulls = Object.fromEntries(columns.map((name): [string, Field] => [name, { isNull: true }]));
    expect((await calls.execute(sql, nulls)).numberOfRecordsUpdated).toBe(1);
  });

  test("where nothing tells the type: 42P18", async () => {
    const text = await message(calls.execute("select :v is null", { v: { isNull: true } }));
    expect(text).toContain("could not determine data type of parameter $1; SQLState: 42P18");
  });

  test("with a hint it is a null still", async () => {
    expect(await calls.field("select cast(:v as uuid)", { v: [{ isNull: true }, "UUID"] })).toEqual({ isNull: true });
  });
});

describe("what is refused before PostgreSQL sees it", () => {
  test.each<[string, string, Parameters, string]>([
    [
      "arrays",
      "select :v",
      { v: { arrayValue: { longValues: [1] } } },
      "ValidationException Array parameters are not supported",
    ],
    [
      "a bad name in the list",
      "select 1",
      { "a-b": { longValue: 1 } },
      "ValidationException Named parameter syntax is invalid, input: a-b",
    ],
    ["a name without a value", "select :a", {}, "ValidationException Cannot find parameter: a"],
    ["a value without a use", "select 1", { a: { longValue: 1 } }, "ValidationException Cannot find parameter: a"],
    [
      "an ISO timestamp",
      "select :v",
      { v: [{ stringValue: "2024-01-15T12:34:56Z" }, "TIMESTAMP"] },
      'BadRequestException Cannot parse date or time "2024-01-15T12:34:56Z"',
    ],
  ])("%s", async (_, sql, parameters, expected) => {
    expect(await message(calls.execute(sql, parameters))).toBe(expected);
  });
});

describe("what the scanner leaves alone or damages", () => {
  test("$1 in the SQL is not replaced, so its value is missing: 08P01", async () => {
    expect(await message(calls.execute("select $1"))).toMatch(/bind message supplies 0 parameters.+SQLState: 08P01$/);
  });

  test("an array slice", async () => {
    const slice = calls.execute("select (array[1,2])[1:2]", { 2: { longValue: 2 } });
    expect(await message(slice)).toContain('syntax error at or near "$1"');
  });

  test("a dollar-quoted string is corrupted without a word", async () => {
    const field = await calls.field("select $$a :b c$$", { b: { longValue: 1 } });
    expect(field).toEqual({ stringValue: "a $1 c" });
  });

  test("one name used twice is two parameters: 42803", async () => {
    const sql = "select date_trunc(:u, ts) from t group by date_trunc(:u, ts)";
    expect(await message(calls.execute(sql, { u: { stringValue: "day" } }))).toContain("SQLState: 42803");
  });
});
