import fc from "fast-check";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { DataApi } from "../../../infra/local/data-api/index.ts";
import { anyText, anyValue, bodyLike } from "../../fuzz/values.ts";
import { ownDataApi } from "../../support/data-api-calls.ts";
import { holdsAsync } from "../../support/property.ts";
import { createTestDatabase, type TestDatabase } from "../../support/test-database.ts";
import { until } from "../../support/until.ts";

/* Whatever a caller sends to the Data API of this machine, it is answered, or refused as the service refuses it; and the next is served. */

let db: TestDatabase;
let own: { api: DataApi; endpoint: string; close(): Promise<void> };
const failed: unknown[] = [];
beforeAll(async () => {
  db = await createTestDatabase();
  await db.ownerPool.query("create table things (id uuid primary key, name text, n bigint, at timestamp, ok boolean)");
});
beforeEach(async () => {
  own = await ownDataApi({ onWarning: (warning) => warning.kind === "internalError" && failed.push(warning.error) });
});
afterEach(() => own.close());
afterAll(() => db.drop());

/** The service's own names for what a caller did wrong. */
const REFUSALS = [
  "BadRequestException",
  "DatabaseErrorException",
  "DatabaseNotFoundException",
  "NotFoundException",
  "SecretsErrorException",
  "SerializationException",
  "TransactionNotFoundException",
  "UnknownOperationException",
  "UnsupportedResultException",
  "ValidationException",
];

const field = fc.oneof(
  fc.record({ stringValue: anyText }),
  fc.record({ longValue: fc.oneof(fc.integer(), fc.double(), fc.constantFrom(2 ** 63, -(2 ** 64))) }),
  fc.record({ doubleValue: fc.oneof(fc.double(), fc.constantFrom("NaN", "-Infinity", "x")) }),
  fc.record({ booleanValue: fc.oneof(fc.boolean(), anyValue) }),
  fc.record({ blobValue: anyText }),
  fc.record({ isNull: fc.constantFrom(true, false) }),
  fc.record({ arrayValue: anyValue }),
);
const hint = fc.constantFrom("UUID", "JSON", "TIMESTAMP", "DATE", "TIME", "DECIMAL", "NOTHING", null);
const parameter = fc.record(
  {
    name: fc.oneof(fc.constantFrom("a", "b"), anyText),
    value: fc.oneof({ weight: 5, arbitrary: field }, { weight: 1, arbitrary: anyValue }),
    typeHint: hint,
  },
  { requiredKeys: ["name", "value"] },
);
const SQL = [
  "select :a",
  "select cast(:a as text), cast(:b as bigint)",
  "select cast(:a as uuid)",
  "select cast(:a as jsonb)",
  "insert into things (id, name) values (cast(:a as uuid), :b)",
  "select * from things where name = :a",
  "select 1; select 2",
  "select",
  "begin",
  "commit",
  "copy things to stdout",
  "listen x",
  "select 1 \0",
  "select '\ud800'",
  "select :é",
  "set local lock_timeout = :a",
  "do 'begin raise exception ''x''; end'",
];

/** A request that is right in what it does not say otherwise: mostly each name of its statement has a value. */
const request = () =>
  fc.oneof({ weight: 6, arbitrary: fc.constantFrom(...SQL) }, { weight: 1, arbitrary: anyText }).chain((sql) => {
    const names = [...new Set([...sql.matchAll(/:([a-z])/g)].map(([, name]) => name!))];
    const right = fc.tuple(
      ...names.map((name) =>
        fc.record({ name: fc.constant(name), value: field, typeHint: hint }, { requiredKeys: ["name", "value"] }),
      ),
    );
    const parameters = fc.oneof(
      { weight: 4, arbitrary: right },
      { weight: 1, arbitrary: fc.array(parameter, { maxLength: 3 }) },
    );
    return fc.record(
      {
        resourceArn: fc.constant(db.dataApiConfig.clusterArn),
        secretArn: fc.constant(db.dataApiConfig.ownerSecretArn),
        database: fc.oneof({ weight: 20, arbitrary: fc.constant(db.name) }, { weight: 1, arbitrary: anyText }),
        sql: fc.constant(sql),
        parameters,
        parameterSets: fc.array(parameters, { maxLength: 3 }),
        ...seldom,
      },
      { requiredKeys: ["resourceArn", "secretArn", "database", "sql", "parameters"] },
    );
  });
const sometimes = <T>(of: fc.Arbitrary<T>) => fc.option(of, { freq: 1, nil: undefined });
const seldom = {
  transactionId: fc.oneof(
    { weight: 9, arbitrary: fc.constant(undefined) },
    { weight: 1, arbitrary: fc.oneof(fc.uuid(), anyText) },
  ),
  includeResultMetadata: sometimes(fc.boolean()),
  formatRecordsAs: sometimes(fc.constantFrom("JSON", "NONE")),
};

const PATHS = [
  "/Execute",
  "/Execute",
  "/Execute",
  "/BatchExecute",
  "/CommitTransaction",
  "/RollbackTransaction",
  "/__proto__",
  "//",
  "/",
];

async function post(path: string, body: string): Promise<Response> {
  return fetch(own.endpoint + path, { method: "POST", body: Buffer.from(body) });
}

test("any request is answered or refused, and leaves no connection and no transaction behind", async () => {
  const seen = new Set<string>();
  await holdsAsync(
    fc.asyncProperty(fc.constantFrom(...PATHS), bodyLike(request(), 40), async (path, body) => {
      const answer = await post(path, body);
      const error = answer.headers.get("x-amzn-errortype");
      const text = await answer.text();
      seen.add(error ?? "answered");
      expect(failed, `${path} ${body}`).toEqual([]);
      if (answer.status === 200) expect(JSON.parse(text)).toBeTypeOf("object");
      else {
        expect(answer.status, `${error} ${text}`).toBeLessThan(500);
        expect(REFUSALS).toContain(error);
        expect(JSON.parse(text).message).toMatch(/./);
      }
    }),
    1_500,
  );
  // requests of one kind alone would prove nothing
  for (const name of ["answered", "ValidationException", "SerializationException", "DatabaseErrorException"])
    expect(seen).toContain(name);
  await until(() => own.api.stats().busy === 0, { what: "no connection in use" });
  expect(own.api.stats()).toMatchObject({ queued: 0, transactions: 0 });
});

test("a transaction is ended by its own end alone, whatever is sent with its id", async () => {
  const arns = {
    resourceArn: db.dataApiConfig.clusterArn,
    secretArn: db.dataApiConfig.ownerSecretArn,
    database: db.name,
  };
  const { transactionId } = (await (await post("/BeginTransaction", JSON.stringify(arns))).json()) as {
    transactionId: string;
  };
  // calls that do not get as far as the database: an error of a statement would spoil the transaction, as it should
  const wrong = fc.constantFrom(
    { ...arns, transactionId, sql: "select :a" },
    { ...arns, transactionId, sql: "select 1", parameters: [{ name: "b", value: {} }] },
    { ...arns, transactionId, sql: 7 },
    { ...arns, transactionId: `${transactionId}x`, sql: "select 1" },
    { ...arns, transactionId, secretArn: "arn:aws:secretsmanager:nobody", sql: "select 1" },
  );
  await holdsAsync(
    fc.asyncProperty(wrong, async (body) => {
      const { status } = await post("/Execute", JSON.stringify(body));
      expect(status >= 400 && status < 500).toBe(true);
    }),
    50,
  );
  const insert = "insert into things (id, name) values (gen_random_uuid(), 'kept')";
  expect((await post("/Execute", JSON.stringify({ ...arns, transactionId, sql: insert }))).status).toBe(200);
  expect((await post("/CommitTransaction", JSON.stringify({ ...arns, transactionId }))).status).toBe(200);
  expect((await db.ownerPool.query("select 1 from things where name = 'kept'")).rowCount).toBe(1);
});
