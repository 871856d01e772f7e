import { RDSDataClient } from "@aws-sdk/client-rds-data";
import { sql } from "kysely";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { DataApi, FaultSpec } from "../../../infra/local/data-api/index.ts";
import { listenDataApi } from "../../../infra/local/data-api/listen.ts";
import { callLimiter, type DataApiDatabase, dataApi } from "../../../lib/index.ts";
import { statement } from "../../../lib/sql/statement.ts";
import { ownDataApi } from "../../support/data-api-calls.ts";
import { createTestDatabase, type TestDatabase } from "../../support/test-database.ts";
import { until } from "../../support/until.ts";

let database: TestDatabase;
let own: { api: DataApi; endpoint: string; close(): Promise<void> };
beforeAll(async () => {
  database = await createTestDatabase();
  await database.ownerPool.query("create table t (n int unique)");
});
afterAll(() => database.drop());
beforeEach(async () => {
  await database.ownerPool.query("truncate t");
  own = await ownDataApi();
});
afterEach(() => own.close());

interface Options {
  readonly timeLeft?: () => number;
  readonly endpoint?: string;
  readonly callsInFlight?: number;
  /** Told of every call that failed. */
  readonly failed?: (error: unknown) => void;
}

function connectTo({ timeLeft, endpoint, callsInFlight = 10, failed }: Options = {}): DataApiDatabase<unknown> {
  const client = new RDSDataClient({
    endpoint: endpoint ?? own.endpoint,
    region: "us-east-1",
    credentials: { accessKeyId: "test", secretAccessKey: "test" },
    maxAttempts: 1,
  });
  const tell = (error: unknown) => {
    failed?.(error);
    return Promise.reject(error);
  };
  client.middlewareStack.add((next) => (args) => next(args).catch(tell), { step: "initialize" });
  const { clusterArn, ownerSecretArn, name } = { ...database.dataApiConfig, name: database.name };
  const target = { resourceArn: clusterArn, secretArn: ownerSecretArn, database: name };
  return dataApi({ client, limiter: callLimiter(callsInFlight), ...target, ...(timeLeft && { timeLeft }) });
}

const one = statement<{ n: number }>("test", "one", sql`select 1 as n`);
const insert = statement<{ n: number }>("test", "insert", sql`insert into t values (1) returning n`);
const put = statement<{ n: number }>(
  "test",
  "put",
  sql`insert into t values (1) on conflict (n) do update set n = 1 returning n`,
);
const fault = (spec: FaultSpec) => own.api.faults.add({ match: "millrace:test", ...spec });
const countdown = (ms: number) => {
  const end = performance.now() + ms;
  return () => end - performance.now();
};

describe("repeated, because nothing had happened", () => {
  test.each<[string, FaultSpec]>([
    ["a deadlock", { kind: "error", code: "40P01", count: 3 }],
    ["a serialization failure", { kind: "error", code: "40001" }],
    ["a throttled call", { kind: "error", code: "ThrottlingException" }],
    ["a database that wakes up", { kind: "resuming" }],
  ])("%s", async (_, spec) => {
    fault(spec);
    expect(await connectTo().run(insert)).toEqual({ rows: [{ n: 1 }], unanswered: false });
    expect(own.api.faults.list()).toEqual([]);
  });

  test("a refused connection", async () => {
    const spare = await listenDataApi(own.api, { port: 0 });
    await spare.close();
    const failures: unknown[] = [];
    const running = connectTo({ endpoint: spare.url, failed: (error) => failures.push(error) }).run(insert);
    await until(() => failures.length > 0, { what: "a refused connection" });
    const again = await listenDataApi(own.api, { port: Number(new URL(spare.url).port) });
    expect(await running).toEqual({ rows: [{ n: 1 }], unanswered: false });
    expect(failures[0]).toMatchObject({ code: "ECONNREFUSED" });
    await again.close();
  });
});

describe("repeated, although nobody knows", () => {
  test.each<[string, FaultSpec]>([
    ["a lost answer", { kind: "lostAnswer" }],
    ["a service that is unavailable", { kind: "unavailable", count: 2 }],
    ["an internal error", { kind: "error", code: "InternalServerErrorException" }],
  ])("%s: the answer says so", async (_, spec) => {
    fault(spec);
    expect(await connectTo().run(put)).toEqual({ rows: [{ n: 1 }], unanswered: true });
  });

  test("an answer that takes too long", async () => {
    fault({ kind: "hang", count: 2 });
    const hopeless = connectTo().run(put, { timeoutSeconds: 0.2, withinSeconds: 0.1 });
    await expect(hopeless).rejects.toMatchObject({ code: "DATABASE_UNANSWERED" });
    expect(await connectTo().run(put, { timeoutSeconds: 0.2 })).toEqual({ rows: [{ n: 1 }], unanswered: true });
  });

  test("a session that the server ended", async () => {
    const blocker = await database.connect();
    await blocker.query("begin; insert into t values (1)");
    const running = connectTo().run(put);
    const superuser = await database.connect("superuser");
    await until(
      async () =>
        (
          await superuser.query(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
          )
        ).rowCount,
      { what: "a backend to end" },
    );
    await blocker.query("rollback");
    expect(await running).toEqual({ rows: [{ n: 1 }], unanswered: true });
  });

  test("and then it fails: the error still says that nobody knows", async () => {
    fault({ kind: "lostAnswer" });
    await expect(connectTo().run(insert)).rejects.toMatchObject({
      code: "STATEMENT_FAILED",
      details: { statement: "test insert", sqlState: "23505", unanswered: true },
    });
  });
});

describe("not repeated", () => {
  test("a lock timeout: thrown, so that a batch can be split; repeated for the patient", async () => {
    fault({ kind: "error", code: "55P03" });
    await expect(connectTo().run(insert)).rejects.toMatchObject({
      code: "STATEMENT_FAILED",
      details: { sqlState: "55P03", unanswered: false },
    });
    fault({ kind: "error", code: "55P03", count: 2 });
    expect(await connectTo().run(insert, { patient: true })).toEqual({ rows: [{ n: 1 }], unanswered: false });
  });

  test("what PostgreSQL or the service refuses", async () => {
    await connectTo().run(insert);
    await expect(connectTo().run(insert)).rejects.toMatchObject({
      code: "STATEMENT_FAILED",
      details: { sqlState: "23505", unanswered: false },
    });
    fault({ kind: "error", code: "AccessDeniedException" });
    await expect(connectTo().run(one)).rejects.toMatchObject({ code: "DATABASE_REFUSED" });
    expect(own.api.stats().statements).toMatchObject({ "millrace:test insert": 2, "millrace:test one": 1 });
  });
});

describe("the time left", () => {
  test("bounds the wait for an answer, with time kept back to report it", async () => {
    fault({ kind: "hang", count: 9 });
    const left = countdown(1500);
    await expect(connectTo({ timeLeft: left }).run(put)).rejects.toMatchObject({ code: "DATABASE_UNANSWERED" });
    expect(left()).toBeGreaterThan(100);
  });

  test("bounds the repetitions", async () => {
    fault({ kind: "error", code: "40P01", count: 1000 });
    const left = countdown(1800);
    await expect(connectTo({ timeLeft: left }).run(put)).rejects.toMatchObject({
      code: "DATABASE_REFUSED",
      details: { sqlState: "40P01", unanswered: false },
    });
    expect(left()).toBeGreaterThan(0);
  });

  test("ends before the database woke up: says so", async () => {
    fault({ kind: "resuming", count: 9 });
    await expect(connectTo({ timeLeft: countdown(1500) }).run(put)).rejects.toMatchObject({
      code: "DATABASE_RESUMING",
    });
  });
});

test("no more calls at once than the limiter allows", async () => {
  const blocker = await database.connect();
  await blocker.query("begin; insert into t values (1)");
  const api = connectTo({ callsInFlight: 2 });
  const running = Array.from({ length: 6 }, () => api.run(put));
  await until(() => own.api.stats().busy === 2, { what: "two calls" });
  expect(own.api.stats()).toMatchObject({ inFlight: 2, calls: 2 });
  await blocker.query("rollback");
  await Promise.all(running);
  expect(own.api.stats()).toMatchObject({ calls: 6, highWater: 2 });
});

describe("a long statement", () => {
  test("goes on when its call has timed out", async () => {
    await own.close();
    own = await ownDataApi({ statementTimeoutMs: 200 });
    const long = statement("test", "long", sql`create table slow as select 1 as n from pg_sleep(0.6)`);
    expect(await connectTo().runLong(long)).toBe("unanswered");
    await until(async () => (await database.ownerPool.query("select to_regclass('slow') as it")).rows[0].it, {
      what: "the table",
    });
  });

  test("is done, or fails", async () => {
    expect(await connectTo().runLong(one)).toBe("done");
    await connectTo().run(insert);
    await expect(connectTo().runLong(insert)).rejects.toMatchObject({ code: "STATEMENT_FAILED" });
  });
});
