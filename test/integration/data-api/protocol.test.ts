import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { DataApi } from "../../../infra/local/data-api/index.ts";
import { type Calls, callsTo, ownDataApi } from "../../support/data-api-calls.ts";
import { createTestDatabase, type TestDatabase } from "../../support/test-database.ts";

let db: TestDatabase;
let own: { api: DataApi; endpoint: string; close(): Promise<void> };
let calls: Calls;

beforeAll(async () => {
  db = await createTestDatabase();
});
beforeEach(async () => {
  own = await ownDataApi();
  calls = callsTo(db, { endpoint: own.endpoint });
});
afterEach(() => own.close());
afterAll(() => db.drop());

async function post(path: string, body: string, method = "POST") {
  const answer = await fetch(own.endpoint + path, { method, body: method === "POST" ? body : undefined });
  const { status, headers } = answer;
  return {
    status,
    type: headers.get("content-type"),
    error: headers.get("x-amzn-errortype"),
    body: await answer.text(),
  };
}
const request = (members: object) =>
  JSON.stringify({
    resourceArn: db.dataApiConfig.clusterArn,
    secretArn: db.dataApiConfig.ownerSecretArn,
    database: db.name,
    ...members,
  });

describe("answers on the wire", () => {
  test("success is 200 and JSON", async () => {
    const answer = await post("/Execute", request({ sql: "select 9007199254740993 as n" }));
    expect(answer).toEqual({
      status: 200,
      type: "application/json",
      error: null,
      body: '{"numberOfRecordsUpdated":0,"records":[[{"longValue":9007199254740993}]]}',
    });
  });

  test("a failure has its name in a header and its message in the body", async () => {
    const answer = await post("/Execute", request({ sql: "select * from x" }));
    expect(answer).toMatchObject({ status: 400, type: "application/json", error: "DatabaseErrorException" });
    expect(JSON.parse(answer.body)).toEqual({
      message: 'ERROR: relation "x" does not exist; Position: 15; SQLState: 42P01',
    });
  });

  test("what has no message has none on the wire", async () => {
    const answer = await post("/Execute", request({ sql: "select 'infinity'::date" }));
    expect(answer).toMatchObject({ status: 500, error: "InternalFailure", body: "{}" });
  });

  test.each(["/ExecuteSql", "/Nonsense", "/"])("unknown operation %s: 404", async (path) => {
    expect(await post(path, "{}")).toMatchObject({ status: 404, error: "UnknownOperationException" });
  });

  test("only POST", async () => {
    expect(await post("/Execute", "", "GET")).toMatchObject({ status: 404 });
  });

  test.each(["", "{", "[]", "null", '"a"', '{"resourceArn":1}', '{"parameters":{}}'])(
    "malformed %s: SerializationException",
    async (body) => {
      const whole = body.startsWith('{"') ? request({ sql: "select 1", ...JSON.parse(body) }) : body;
      expect(await post("/Execute", whole)).toMatchObject({ status: 400, error: "SerializationException" });
    },
  );

  test.each([
    ["a fraction", '{"longValue":1.5}'],
    ["more than 64 bits", '{"longValue":9223372036854775808}'],
    ["text", '{"longValue":"1"}'],
  ])("a longValue with %s: SerializationException", async (_, value) => {
    const body = request({ sql: "select :a", parameters: "?" }).replace('"?"', `[{"name":"a","value":${value}}]`);
    expect(await post("/Execute", body)).toMatchObject({ status: 400, error: "SerializationException" });
  });

  test("two members in one Field: ValidationException", async () => {
    const parameters = [{ name: "a", value: { longValue: 1, stringValue: "1" } }];
    const answer = await post("/Execute", request({ sql: "select :a", parameters }));
    expect(answer).toMatchObject({ status: 400, error: "ValidationException" });
  });

  test("members that are missing or too long: ValidationException", async () => {
    const missing = await post("/Execute", request({}));
    expect(missing).toMatchObject({ status: 400, error: "ValidationException" });
    expect(missing.body).toContain("'sql' failed to satisfy constraint: Member must not be null");
    const sql = (length: number) => request({ sql: "select 1".padEnd(length) });
    expect((await post("/Execute", sql(65_536))).status).toBe(200);
    expect((await post("/Execute", sql(65_537))).body).toContain("less than or equal to 65536");
    expect((await post("/CommitTransaction", request({}))).body).toContain("'transactionId'");
  });

  test("a request of more than 4 MiB: 413", async () => {
    const body = (length: number) =>
      request({ sql: "select length(:a)", parameters: [{ name: "a", value: { stringValue: "x".repeat(length) } }] });
    expect((await post("/Execute", body(4 * 1_048_576 - 1_000))).status).toBe(200);
    expect(await post("/Execute", body(4 * 1_048_576))).toMatchObject({ status: 413, body: "" });
  });
});

describe("what is refused", () => {
  const failure = (extra: object, sql = "select 1") => calls.execute(sql, {}, extra).catch((error) => error);

  test("two statements", async () => {
    for (const sql of ["select 1; select 2", "do $$ begin null; end $$; select 1"]) {
      expect(await failure({}, sql)).toMatchObject({
        name: "ValidationException",
        message: "Multistatements aren't supported.",
      });
    }
  });

  test("control: a semicolon at the end, in a string or in a body", async () => {
    for (const sql of ["select 1;", "select ';'", "do $$ begin null; end $$"]) await calls.execute(sql);
  });

  test("a schema", async () => {
    expect(await failure({ schema: "public" })).toMatchObject({
      name: "ValidationException",
      message: "The schema parameter isn't supported",
    });
  });

  test("an unknown cluster", async () => {
    const resourceArn = "arn:aws:rds:us-east-1:000000000000:cluster:other";
    expect(await failure({ resourceArn })).toMatchObject({ name: "DatabaseNotFoundException" });
    const body = request({ resourceArn, transactionId: "x" });
    expect(await post("/CommitTransaction", body)).toMatchObject({ status: 404, error: "NotFoundException" });
  });

  test("an unknown secret", async () => {
    const secretArn = "arn:aws:secretsmanager:us-east-1:000000000000:secret:other";
    expect(await failure({ secretArn })).toMatchObject({ name: "SecretsErrorException" });
    const body = request({ secretArn, transactionId: "x" });
    expect(await post("/RollbackTransaction", body)).toMatchObject({ status: 404, error: "NotFoundException" });
  });

  test("an unknown database", async () => {
    expect(await failure({ database: "nowhere" })).toMatchObject({
      name: "DatabaseErrorException",
      message: 'FATAL: database "nowhere" does not exist; SQLState: 3D000',
    });
  });

  test("a wrong password", async () => {
    await own.close();
    own = await ownDataApi({ secret: () => ({ username: "millrace_owner", password: "wrong" }) });
    calls = callsTo(db, { endpoint: own.endpoint });
    expect(await failure({})).toMatchObject({
      name: "DatabaseErrorException",
      message: 'FATAL: password authentication failed for user "millrace_owner"; SQLState: 28P01',
    });
  });

  test("a database server that is not there: 504", async () => {
    await own.close();
    own = await ownDataApi({ port: 1 });
    calls = callsTo(db, { endpoint: own.endpoint });
    expect(await failure({})).toMatchObject({ name: "DatabaseUnavailableException" });
    expect(own.api.stats()).toMatchObject({ connections: 0, inFlight: 0 });
  });

  test("COPY, either way", async () => {
    await calls.execute("create table copied (a int)");
    expect((await failure({}, "copy copied to stdout")).message).toContain("unexpected message: CopyOutResponse");
    expect((await failure({}, "copy copied from stdin")).message).toContain("unexpected message: CopyInResponse");
    expect(await calls.field("select 1")).toEqual({ longValue: 1 });
  });
});

describe("the database of a request", () => {
  test("is the one it names, else the default", async () => {
    const sql = "select current_database()::text";
    expect(await calls.field(sql)).toEqual({ stringValue: db.name });
    expect(await calls.field(sql, {}, { database: undefined })).toEqual({ stringValue: "postgres" });
  });
});

test("statements are counted by the comment they begin with", async () => {
  await calls.execute("/* millrace:claim volumes */ select 1");
  await calls.execute("/* millrace:claim volumes */ select 1");
  await calls.execute("select 1");
  await calls.batch("/* millrace:note */ select 1", [{}, {}]);
  await calls.rollback(await calls.begin());
  expect(own.api.stats()).toMatchObject({
    calls: 6,
    inFlight: 0,
    statements: { "millrace:claim volumes": 2, "millrace:note": 1, other: 1 },
    operations: { ExecuteStatement: 3, BatchExecuteStatement: 1, BeginTransaction: 1, RollbackTransaction: 1 },
  });
});
