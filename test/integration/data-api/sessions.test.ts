import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { DataApi, DataApiOptions, Warning } from "../../../infra/local/data-api/index.ts";
import { type Calls, callsTo, ownDataApi } from "../../support/data-api-calls.ts";
import { createTestDatabase, type TestDatabase } from "../../support/test-database.ts";
import { until } from "../../support/until.ts";

let db: TestDatabase;
let own: { api: DataApi; endpoint: string; close(): Promise<void> };
let calls: Calls;
let app: Calls;
const warnings: Warning[] = [];

beforeAll(async () => {
  db = await createTestDatabase();
  await db.ownerPool.query("create table t (id int)");
});
beforeEach(() => open({}));
afterEach(() => own.close());
afterAll(() => db.drop());

async function open(options: Partial<DataApiOptions>): Promise<void> {
  await own?.close();
  own = await ownDataApi({ onWarning: (warning) => warnings.push(warning), ...options });
  calls = callsTo(db, { endpoint: own.endpoint });
  app = callsTo(db, { endpoint: own.endpoint, secretArn: db.dataApiConfig.secretArn });
}

const message = (call: Promise<unknown>) =>
  call.then(
    () => "no error",
    (error: Error) => `${error.name} ${error.message}`,
  );
const pid = async () => (await calls.field("select pg_backend_pid()")).longValue;
const held = async () => {
  const lock = await db.connect();
  await lock.query("begin; lock table t in access exclusive mode");
  return { release: () => lock.query("rollback") };
};
const IN_TRANSACTION =
  "select 1 from pg_stat_activity where state like 'idle in transaction%' and datname = current_database()";
const blocked = async () =>
  (await db.ownerPool.query("select count(*)::int as n from pg_locks where not granted and relation = 't'::regclass"))
    .rows[0].n;

describe("outside of a transaction", () => {
  test("any session may get a call", async () => {
    const pids = new Set<number | undefined>();
    for (let call = 0; call < 60; call++) pids.add(await pid());
    expect(pids.size).toBe(4);
  });

  test("which one is a matter of chance", async () => {
    let turn = 0;
    await open({ random: () => [0, 0.999][turn++ % 2] ?? 0 });
    const pids: unknown[] = [];
    for (let call = 0; call < 8; call++) pids.push(await pid());
    // The first of the idle ones, then the last, which is the one just given back.
    expect(pids[4]).toBe(pids[5]);
    expect(pids[5]).not.toBe(pids[6]);
  });

  test("SET holds for some calls and not for others", async () => {
    await calls.execute("set lock_timeout = '77s'");
    const seen = new Set<string | undefined>();
    for (let call = 0; call < 60; call++) seen.add((await calls.field("show lock_timeout")).stringValue);
    expect([...seen].sort()).toEqual(["0", "77s"]);
  });

  test("a prepared statement is not found again", async () => {
    await calls.execute("prepare p as select 1");
    expect(await message(calls.execute("execute p"))).toContain('prepared statement "p" does not exist');
  });

  test("BEGIN as SQL comes to nothing, with a warning", async () => {
    warnings.length = 0;
    await calls.execute("begin");
    expect(warnings).toEqual([{ kind: "transactionLeftOpen", sql: "begin" }]);
    const gone = async () => (await db.ownerPool.query(IN_TRANSACTION)).rowCount === 0;
    await until(gone, { what: "its session to be gone" });
  });

  test("a batch that fails keeps what ran before", async () => {
    const sets = [1, 0, 2].map((n) => ({ n: { longValue: n } }));
    expect(await message(calls.batch("insert into t (id) select 10 / :n", sets))).toContain("SQLState: 22012");
    expect(await calls.field("select count(*) from t where id = 10")).toEqual({ longValue: 1 });
  });

  test("a batch answers without counts; an empty set runs the statement once", async () => {
    expect(await calls.batch("insert into t (id) values (20)", [{}])).toMatchObject({
      updateResults: [{ generatedFields: [] }],
    });
    expect(await calls.field("select count(*) from t where id = 20")).toEqual({ longValue: 1 });
  });
});

describe("the settings of a role", () => {
  afterEach(() => alterRole("reset all"));
  // In this database only: other files use the role at the same time.
  const alterRole = async (how: string) => {
    const admin = await db.connect("superuser");
    await admin.query(`alter role millrace_app in database ${db.name} ${how}`);
    await admin.end();
  };
  const show = async (name: string) => (await app.field(`show ${name}`)).stringValue;

  test("time is UTC and the statement timeout the service's", async () => {
    expect([await show("timezone"), await show("statement_timeout")]).toEqual(["UTC", "45s"]);
  });

  test("lower timeouts of its own hold", async () => {
    await alterRole("set statement_timeout = '30s'");
    await alterRole("set lock_timeout = '2s'");
    await alterRole("set search_path = 'elsewhere'");
    expect([await show("statement_timeout"), await show("lock_timeout"), await show("search_path")]).toEqual([
      "30s",
      "2s",
      "elsewhere",
    ]);
  });

  test("a higher one does not raise the service's", async () => {
    await alterRole("set statement_timeout = '90s'");
    expect(await show("statement_timeout")).toBe("45s");
  });

  test("its own timeout is an SQL error, not the service's", async () => {
    await alterRole("set statement_timeout = '300ms'");
    expect(await message(app.execute("select 1 from pg_sleep(5)"))).toBe(
      "DatabaseErrorException ERROR: canceling statement due to statement timeout; SQLState: 57014",
    );
  });

  test("the application may not make tables", async () => {
    expect(await message(app.execute("create table no (a int)"))).toMatch(
      /permission denied for schema public.+42501$/,
    );
    expect((await app.execute("insert into t (id) values (1)")).numberOfRecordsUpdated).toBe(1);
  });
});

describe("the statement timeout", () => {
  const TIMED_OUT = { name: "StatementTimeoutException", $metadata: { httpStatusCode: 400 } };

  test("cancels the statement and names the session", async () => {
    await open({ statementTimeoutMs: 1_000 });
    const error = await calls.execute("insert into t (id) select 30 from pg_sleep(20)").catch((caught) => caught);
    expect(error).toMatchObject(TIMED_OUT);
    expect(error.dbConnectionId).toBeGreaterThan(0);
    expect(await calls.field("select count(*) from t where id = 30")).toEqual({ longValue: 0 });
  });

  test("in a transaction it leaves 25P02 behind", async () => {
    await open({ statementTimeoutMs: 1_000 });
    const transactionId = await calls.begin();
    const slow = calls.execute("select 1 from pg_sleep(20)", {}, { transactionId });
    await expect(slow).rejects.toMatchObject(TIMED_OUT);
    expect(await message(calls.execute("select 1", {}, { transactionId }))).toContain("SQLState: 25P02");
    await calls.rollback(transactionId);
  });

  test("with continueAfterTimeout the statement goes on without its caller", async () => {
    await open({ statementTimeoutMs: 1_000 });
    const lock = await held();
    const slow = calls.execute("insert into t (id) values (40)", {}, { continueAfterTimeout: true });
    await expect(slow).rejects.toMatchObject(TIMED_OUT);
    await lock.release();
    const there = () => calls.field("select count(*) from t where id = 40");
    await until(async () => (await there()).longValue === 1, { what: "the statement to have gone on" });
    for (let call = 0; call < 20; call++) {
      expect(await calls.field("show statement_timeout")).toEqual({ stringValue: "1s" });
    }
  });

  test("with continueAfterTimeout a transaction is busy until the statement is done", async () => {
    await open({ statementTimeoutMs: 1_000 });
    const lock = await held();
    const transactionId = await calls.begin();
    const extra = { transactionId, continueAfterTimeout: true };
    await expect(calls.execute("insert into t (id) values (50)", {}, extra)).rejects.toMatchObject(TIMED_OUT);
    expect(await message(calls.commit(transactionId))).toContain("Transaction is still running a query");
    await lock.release();
    await until(() => calls.commit(transactionId).catch(() => undefined), { what: "the commit to be taken" });
    expect(await calls.field("select count(*) from t where id = 50")).toEqual({ longValue: 1 });
  });
});

describe("the pool", () => {
  test("has a size, beyond which calls wait their turn", async () => {
    await open({ poolSize: 3 });
    const lock = await held();
    const waiting = [1, 2, 3, 4, 5].map(() => calls.execute("select count(*) from t"));
    await until(async () => (await blocked()) === 3, { what: "three calls to wait for the lock" });
    expect(own.api.stats()).toMatchObject({ connections: 3, busy: 3, highWater: 3, queued: 2, inFlight: 5 });
    await lock.release();
    await Promise.all(waiting);
    expect(own.api.stats()).toMatchObject({ connections: 3, busy: 0, highWater: 3, queued: 0, inFlight: 0 });
  });

  test("is shared by all roles: an idle connection makes room for another role", async () => {
    await open({ poolSize: 2 });
    await Promise.all([calls.execute("select 1"), calls.execute("select 1")]);
    expect(await app.field("select current_user::text")).toEqual({ stringValue: "millrace_app" });
    expect(own.api.stats().connections).toBe(2);
  });

  test("a transaction has a connection of its own until it ends", async () => {
    await open({ poolSize: 1 });
    const id = await calls.begin();
    const waiting = calls.execute("select 1");
    await until(() => own.api.stats().queued === 1, { what: "the call to wait in line" });
    await calls.rollback(id);
    expect((await waiting).records).toHaveLength(1);
  });

  test("connections that PostgreSQL ended are replaced", async () => {
    await calls.execute("select 1");
    const running = message(calls.execute("select pg_terminate_backend(pg_backend_pid())"));
    expect(await running).toContain("FATAL: terminating connection due to administrator command; SQLState: 57P01");
    await until(() => own.api.stats().busy === 0, { what: "the connection to be given up" });
    expect(await calls.field("select 1")).toEqual({ longValue: 1 });
  });
});
