import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { DataApi } from "../../../infra/local/data-api/index.ts";
import { type Calls, callsTo, ownDataApi } from "../../support/data-api-calls.ts";
import { createTestDatabase, type TestDatabase } from "../../support/test-database.ts";
import { until } from "../../support/until.ts";

let db: TestDatabase;
let calls: Calls;
let own: { api: DataApi; endpoint: string; close(): Promise<void> };

beforeAll(async () => {
  db = await createTestDatabase();
  await db.ownerPool.query("create table t (id int primary key, v text)");
});
beforeEach(async () => {
  await db.ownerPool.query("truncate t");
  own = await ownDataApi();
  calls = callsTo(db, { endpoint: own.endpoint });
});
afterEach(() => own.close());
afterAll(() => db.drop());

const message = (call: Promise<unknown>) =>
  call.then(
    () => "no error",
    (error: Error) => `${error.name} ${error.message}`,
  );
const insert = (id: number, transactionId?: string) =>
  calls.execute("insert into t (id) values (:id)", { id: { longValue: id } }, { transactionId });
const count = async () => (await db.ownerPool.query("select count(*)::int as n from t")).rows[0].n;

describe("the life of a transaction", () => {
  test("commit", async () => {
    const id = await calls.begin();
    expect(id).toMatch(/^AUVtEbv4/);
    expect(id).toHaveLength(184);
    await insert(1, id);
    expect(await count()).toBe(0);
    expect(await calls.commit(id)).toBe("Transaction Committed");
    expect(await count()).toBe(1);
  });

  test("rollback, of DDL as well", async () => {
    const id = await calls.begin();
    await calls.execute("create table made (a int)", {}, { transactionId: id });
    await insert(1, id);
    expect(await calls.rollback(id)).toBe("Rollback Complete");
    expect(await count()).toBe(0);
    expect(await message(calls.execute("select * from made"))).toContain('relation "made" does not exist');
  });

  test("one session: temporary tables, prepared statements, savepoints and cursors work", async () => {
    const transactionId = await calls.begin();
    const run = (sql: string) => calls.execute(sql, {}, { transactionId });
    await run("create temp table x as select 1 as a");
    await run("prepare p as select a from x");
    expect((await run("execute p")).records).toEqual([[{ longValue: 1 }]]);
    await run("savepoint s");
    expect(await message(run("select 1/0"))).toContain("SQLState: 22012");
    await run("rollback to s");
    await run("declare c cursor for select generate_series(1, 3)");
    expect((await run("fetch 2 from c")).records).toHaveLength(2);
    await run("set local lock_timeout = '7s'");
    expect((await run("show lock_timeout")).records).toEqual([[{ stringValue: "7s" }]]);
    await calls.rollback(transactionId);
  });

  test("serializable as the first statement", async () => {
    const transactionId = await calls.begin();
    await calls.execute("set transaction isolation level serializable", {}, { transactionId });
    const shown = await calls.field("show transaction_isolation", {}, { transactionId });
    expect(shown).toEqual({ stringValue: "serializable" });
    await calls.rollback(transactionId);
  });

  test("a serialization failure may come with the commit: 40001", async () => {
    const [one, two] = [await calls.begin(), await calls.begin()];
    for (const transactionId of [one, two]) {
      await calls.execute("set transaction isolation level serializable", {}, { transactionId });
      await calls.execute("select count(*) from t", {}, { transactionId });
    }
    await insert(1, one);
    await insert(2, two);
    await calls.commit(one);
    const text = await message(calls.commit(two));
    expect(text).toMatch(/^DatabaseErrorException ERROR: could not serialize access .+; Hint: .+; SQLState: 40001$/);
    expect(await message(calls.rollback(two))).toContain(
      "Transaction has been aborted due to an error from a previous call.",
    );
    expect(await count()).toBe(1);
  });

  test("a batch inside", async () => {
    const id = await calls.begin();
    await calls.batch("insert into t (id) values (:id)", [{ id: { longValue: 1 } }, { id: { longValue: 2 } }], id);
    await calls.rollback(id);
    expect(await count()).toBe(0);
  });
});

describe("after a failed statement", () => {
  test("25P02 until the rollback, for the commit too", async () => {
    const id = await calls.begin();
    await insert(1, id);
    expect(await message(insert(1, id))).toBe(
      'DatabaseErrorException ERROR: duplicate key value violates unique constraint "t_pkey"; SQLState: 23505',
    );
    const aborted =
      "DatabaseErrorException ERROR: current transaction is aborted, commands ignored until end of transaction block; SQLState: 25P02";
    expect(await message(insert(2, id))).toBe(aborted);
    expect(await message(calls.commit(id))).toBe(aborted);
    expect(await calls.rollback(id)).toBe("Rollback Complete");
    expect(await count()).toBe(0);
  });

  test("a call that is refused before PostgreSQL sees it leaves the transaction as it was", async () => {
    const id = await calls.begin();
    await insert(1, id);
    expect(await message(calls.execute("select :x", {}, { transactionId: id }))).toContain("ValidationException");
    await calls.commit(id);
    expect(await count()).toBe(1);
  });

  test("too large a result ends it", async () => {
    const transactionId = await calls.begin();
    await insert(1, transactionId);
    const large = calls.execute("select repeat('x', 1100000)", {}, { transactionId });
    expect(await message(large)).toContain("UnsupportedResultException");
    expect(await message(calls.commit(transactionId))).toMatch(
      /^TransactionNotFoundException .+ Transaction has been aborted due to an error from a previous call\.$/,
    );
    expect(await count()).toBe(0);
  });
});

describe("which transactions are not found, and why", () => {
  test("an unknown one", async () => {
    expect(await message(insert(1, "AUVtEbv4"))).toBe(
      "TransactionNotFoundException Transaction AUVtEbv4 is not found. Transaction may be expired.",
    );
  });

  test("a committed one", async () => {
    const id = await calls.begin();
    await calls.commit(id);
    const ended = `TransactionNotFoundException Transaction ${id} is not found. One previous call resulted in a termination of your transaction.`;
    expect(await message(insert(1, id))).toBe(ended);
    expect(await message(calls.commit(id))).toBe(ended);
  });

  test("one that a COMMIT in SQL ended", async () => {
    const id = await calls.begin();
    await calls.execute("commit", {}, { transactionId: id });
    expect(await message(insert(1, id))).toContain("One previous call resulted in a termination of your transaction.");
  });

  test("one whose session PostgreSQL ended", async () => {
    const id = await calls.begin();
    await insert(1, id);
    await db.ownerPool.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where state = 'idle in transaction' and datname = current_database()",
    );
    await until(() => own.api.stats().connections === 0, { what: "the session to be gone" });
    expect(await message(insert(2, id))).toContain(
      "Transaction has been aborted due to an error from a previous call.",
    );
  });

  test("somebody else's: the secret must be the one it was begun with", async () => {
    const id = await calls.begin();
    const app = callsTo(db, { endpoint: own.endpoint, secretArn: db.dataApiConfig.secretArn });
    expect(await message(app.rollback(id))).toContain("TransactionNotFoundException");
    expect(await calls.rollback(id)).toBe("Rollback Complete");
  });

  test("another database than the transaction's", async () => {
    const transactionId = await calls.begin();
    const other = calls.execute("select 1", {}, { transactionId, database: "postgres" });
    expect(await message(other)).toBe("BadRequestException Database name is not the same as transaction's");
    await calls.rollback(transactionId);
  });
});

test("closing the server rolls back what is open", async () => {
  await insert(1, await calls.begin());
  await own.api.close();
  await until(async () => (await db.ownerPool.query(IN_TRANSACTION)).rowCount === 0, {
    what: "the session to be gone",
  });
  expect(await count()).toBe(0);
});

const IN_TRANSACTION =
  "select 1 from pg_stat_activity where state like 'idle in transaction%' and datname = current_database()";

test("two calls at once in one transaction: the second is refused at once", async () => {
  const lock = await db.connect();
  await lock.query("begin; lock table t in exclusive mode");
  const id = await calls.begin();
  const first = insert(1, id);
  await until(async () => (await waiting()) === 1, { what: "the first call to wait for the lock" });
  expect(await message(insert(2, id))).toBe("DatabaseErrorException Transaction is still running a query");
  expect(await message(calls.commit(id))).toBe("DatabaseErrorException Transaction is still running a query");
  await lock.query("rollback");
  await first;
  await calls.commit(id);
  expect(await count()).toBe(1);
});

const waiting = async () =>
  (await db.ownerPool.query("select count(*)::int as n from pg_locks where not granted and relation = 't'::regclass"))
    .rows[0].n;
