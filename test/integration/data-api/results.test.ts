import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Calls, callsTo } from "../../support/data-api-calls.ts";
import { createTestDatabase, type TestDatabase } from "../../support/test-database.ts";

const UUID = "7b0b7b0e-0b0a-4f0e-9f2c-2d3a4b5c6d7e";
let db: TestDatabase;
let calls: Calls;

beforeAll(async () => {
  db = await createTestDatabase();
  await db.ownerPool.query(`
    create type mood as enum ('glad', 'sad');
    create domain short as varchar(5);
    create table t (id serial primary key, big bigserial, name varchar(20), price numeric(10,2), tags text[], at timestamptz);
    create table wide (v text)`);
  calls = callsTo(db);
});
afterAll(() => db.drop());

const message = (call: Promise<unknown>) =>
  call.then(
    () => "no error",
    (error: Error) => `${error.name} ${error.message}`,
  );
const select = (expression: string, options = {}) =>
  calls.field(`select ${expression}`, {}, { resultSetOptions: options });

describe("the way back of each type", () => {
  test.each<[string, object]>([
    ["true", { booleanValue: true }],
    ["7::int2", { longValue: 7 }],
    ["7::int4", { longValue: 7 }],
    ["count(*)", { longValue: 1 }],
    ["sum(x) from (values (1), (2)) as v (x)", { longValue: 3 }],
    ["sum(x::int8) from (values (1), (2)) as v (x)", { stringValue: "3" }],
    ["123456.7890", { stringValue: "123456.7890" }],
    ["0.1::float4", { doubleValue: 0.10000000149011612 }],
    ["0.1::float8", { doubleValue: 0.1 }],
    ["'a'::text", { stringValue: "a" }],
    ["'a'::varchar", { stringValue: "a" }],
    ["'a'::char(3)", { stringValue: "a  " }],
    ["'a'::name", { stringValue: "a" }],
    ["'abcde'::short", { stringValue: "abcde" }],
    ["'glad'::mood", { stringValue: "glad" }],
    [`'${UUID}'::uuid`, { stringValue: UUID }],
    ["'10.0.0.1'::inet", { stringValue: "10.0.0.1" }],
    ["'10.0.0.0/8'::cidr", { stringValue: "10.0.0.0/8" }],
    ["'[1,3)'::int4range", { stringValue: "[1,3)" }],
    ["'[1.5,3)'::numrange", { stringValue: "[1.5,3)" }],
    ["'2024-01-15'::date", { stringValue: "2024-01-15" }],
    ["'12:34:56'::time", { stringValue: "12:34:56" }],
    ["'12:34:56.1'::time", { stringValue: "12:34:56.100" }],
    ["'12:34:56.1234'::time", { stringValue: "12:34:56.123400" }],
    ["'2024-01-15 12:34:56'::timestamp", { stringValue: "2024-01-15 12:34:56" }],
    ["'2024-01-15 12:34:56.12'::timestamp", { stringValue: "2024-01-15 12:34:56.120" }],
    ["'2024-01-15 12:34:56+09'::timestamptz", { stringValue: "2024-01-15 03:34:56" }],
    ["'2024-01-15 12:34:56.123456+09'::timestamptz", { stringValue: "2024-01-15 03:34:56.123456" }],
    [`'{"x": 0, "y": "0"}'::jsonb`, { stringValue: '{"x":0,"y":"0"}' }],
    [`'{"x": 0, "y": "0"}'::json`, { stringValue: '{"x": 0, "y": "0"}' }],
    ["'null'::jsonb", { stringValue: "null" }],
    ["'\\x00ff'::bytea", { blobValue: new Uint8Array([0, 255]) }],
    ["null::int", { isNull: true }],
    ["null", { isNull: true }],
    ["array[1,null,3]", { arrayValue: { longValues: [1, null, 3] } }],
    ["array[1.5::float8]", { arrayValue: { doubleValues: [1.5] } }],
    ["array[true,false]", { arrayValue: { booleanValues: [true, false] } }],
    ["array['a','b,c','NULL',null]", { arrayValue: { stringValues: ["a", "b,c", "NULL", null] } }],
    ["array[1.50]", { arrayValue: { stringValues: ["1.50"] } }],
    [`array['${UUID}'::uuid]`, { arrayValue: { stringValues: [UUID] } }],
    ["array['2024-01-15 12:00:00.5+02'::timestamptz]", { arrayValue: { stringValues: ["2024-01-15 10:00:00.500"] } }],
    ["'{}'::int[]", { arrayValue: { longValues: [] } }],
    ["'{}'::text[]", { arrayValue: { stringValues: [] } }],
    ["null::text[]", { isNull: true }],
  ])("%s", async (expression, field) => {
    expect(await select(expression)).toEqual(field);
  });

  test("a bigint is a number, or text on demand, with all digits", async () => {
    expect(await select("9007199254740993", { longReturnType: "STRING" })).toEqual({ stringValue: "9007199254740993" });
    // The SDK, not the service, rounds it.
    expect(await select("9007199254740993")).toEqual({ longValue: 9007199254740992 });
  });

  test("a decimal is text, or a number on demand", async () => {
    expect(await select("1.50", { decimalReturnType: "DOUBLE_OR_LONG" })).toEqual({ doubleValue: 1.5 });
    expect(await select("15::numeric", { decimalReturnType: "DOUBLE_OR_LONG" })).toEqual({ longValue: 15 });
  });
});

describe("what cannot come back", () => {
  test.each([
    ["interval '1 day'", "INTERVAL"],
    ["'12:00+01'::timetz", "TIMETZ"],
    ["'r'::\"char\"", '"CHAR"'],
    ["'t'::regclass", "REGCLASS"],
    ["'int'::regtype", "REGTYPE"],
    ["1::money", "MONEY"],
    ["point(1, 2)", "POINT"],
    ["'<a/>'::xml", "XML"],
    ["'08:00:2b:01:02:03'::macaddr", "MACADDR"],
    ["'[1,2)'::int8range", "INT8RANGE"],
    ["'[2024-01-01,2024-01-02)'::daterange", "DATERANGE"],
    ["'[2024-01-01,2024-01-02)'::tsrange", "TSRANGE"],
    ["array[interval '1 day']", "INTERVAL[]"],
    ["row(1, 2)", "RECORD"],
  ])("%s", async (expression, name) => {
    expect(await message(select(expression))).toBe(
      `UnsupportedResultException The result contains the unsupported data type ${name}.`,
    );
  });

  test("one such column fails the query even without a row", async () => {
    expect(await message(calls.execute("select 1, relkind from pg_class where false"))).toContain('"CHAR"');
  });

  test("arrays of more than one dimension", async () => {
    expect(await message(select("array[[1,2],[3,4]]"))).toBe(
      "UnsupportedResultException The result contains a multidimensional array",
    );
  });

  test.each(["'NaN'::float8", "'Infinity'::float4", "array['-Infinity'::float8]"])("%s", async (expression) => {
    expect(await message(select(expression))).toBe(
      "UnsupportedResultException NaN and Infinity values are not supported",
    );
  });

  test.each(["date", "timestamp", "timestamptz"])("infinity as %s: 500 without a message", async (type) => {
    const error = await select(`'infinity'::${type}`).catch((caught) => caught);
    expect(error).toMatchObject({ name: "InternalFailure", $metadata: { httpStatusCode: 500 } });
    expect(error.message).toBe("UnknownError");
  });

  test("control: a cast to text makes it work", async () => {
    expect(await select("(interval '1 day')::text")).toEqual({ stringValue: "1 day" });
  });
});

describe("records and metadata", () => {
  test("a statement without rows has neither", async () => {
    const answer = await calls.execute("insert into t (name) values ('a'), ('b')", {}, { includeResultMetadata: true });
    expect(answer).toMatchObject({ numberOfRecordsUpdated: 2, generatedFields: [] });
    expect(answer).not.toHaveProperty("records");
    expect(answer).not.toHaveProperty("columnMetadata");
  });

  test("no rows found is an empty list", async () => {
    const answer = await calls.execute("select id from t where false", {}, { includeResultMetadata: true });
    expect(answer.records).toEqual([]);
    expect(answer.columnMetadata).toHaveLength(1);
    expect(answer.numberOfRecordsUpdated).toBe(0);
  });

  test("metadata come only when asked for", async () => {
    expect(await calls.execute("select 1")).not.toHaveProperty("columnMetadata");
  });

  test("RETURNING gives rows", async () => {
    const answer = await calls.execute("update t set name = 'c' where false returning id");
    expect(answer.records).toEqual([]);
  });

  test("DDL counts nothing", async () => {
    expect(await calls.execute("create table made (a int)")).toMatchObject({ numberOfRecordsUpdated: 0 });
  });

  test("of columns, serials, arrays and expressions", async () => {
    const sql = "select id, big, name, price, tags, at as label, 1 as one from t";
    const { columnMetadata } = await calls.execute(sql, {}, { includeResultMetadata: true });
    const shown = columnMetadata?.map(({ name, typeName, type, nullable, tableName, precision, arrayBaseColumnType }) =>
      [name, typeName, type, nullable, tableName, precision, arrayBaseColumnType].join(" "),
    );
    expect(shown).toEqual([
      "id serial 4 0 t 10 0",
      "big bigserial -5 0 t 19 0",
      "name varchar 12 1 t 20 0",
      "price numeric 2 1 t 10 0",
      "tags _text 2003 1 t 2147483647 12",
      "label timestamptz 93 1 t 35 0",
      "one int4 4 2  10 0",
    ]);
    expect(columnMetadata?.[5]?.label).toBe("label");
  });

  test("changed definitions are seen", async () => {
    const nullable = async () =>
      (await calls.execute("select v from wide", {}, { includeResultMetadata: true })).columnMetadata?.[0]?.nullable;
    expect(await nullable()).toBe(1);
    await calls.execute("alter table wide alter column v set not null");
    expect(await nullable()).toBe(0);
  });

  test("two columns of one name keep their places", async () => {
    const { records } = await calls.execute("select 1 as a, 2 as a");
    expect(records).toEqual([[{ longValue: 1 }, { longValue: 2 }]]);
  });

  test("an empty statement", async () => {
    expect(await calls.execute("")).toMatchObject({ numberOfRecordsUpdated: 0 });
  });
});
