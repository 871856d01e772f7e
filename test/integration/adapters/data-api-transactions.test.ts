import { type Kysely, sql } from "kysely";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { DataApi } from "../../../infra/local/data-api/index.ts";
import { ownDataApi } from "../../support/data-api-calls.ts";
import { connect } from "../../support/engine.ts";
import { createTestDatabase, type TestDatabase } from "../../support/test-database.ts";

interface Schema {
  t: { n: number };
}

let database: TestDatabase;
let own: { api: DataApi; endpoint: string; close(): Promise<void> };
let db: Kysely<Schema>;
beforeAll(async () => {
  database = await createTestDatabase();
  await database.ownerPool.query("create table t (n int unique)");
});
afterAll(() => database.drop());
beforeEach(async () => {
  await database.ownerPool.query("truncate t");
  own = await ownDataApi();
  const { dataApiConfig } = database;
  const here = { ...database, dataApiConfig: { ...dataApiConfig, endpoint: own.endpoint } };
  db = connect<Schema>(here, dataApiConfig.ownerSecretArn).kysely;
});
afterEach(() => own.close());

const add = (on: Kysely<Schema>, n: number) => on.insertInto("t").values({ n }).execute();
const numbers = async () => (await database.ownerPool.query("select n from t order by n")).rows.map((r) => r.n);
const setting = async (on: Kysely<Schema>, name: string) =>
  (await sql<{ v: string }>`select current_setting(${name}) as v`.execute(on)).rows[0]!.v;

test("a transaction commits, or leaves nothing behind", async () => {
  await db.transaction().execute(async (trx) => {
    await add(trx, 1);
    await add(trx, 2);
    expect(await numbers()).toEqual([]);
  });
  const failing = db.transaction().execute(async (trx) => {
    await add(trx, 3);
    throw new Error("no");
  });
  await expect(failing).rejects.toThrow("no");
  expect(await numbers()).toEqual([1, 2]);
});

describe("settings of a transaction", () => {
  test.each(["serializable", "repeatable read", "read committed"] as const)(
    "isolation level %s is obeyed",
    async (level) => {
      await db
        .transaction()
        .setIsolationLevel(level)
        .execute(async (trx) => {
          expect(await setting(trx, "transaction_isolation")).toBe(level);
        });
    },
  );

  test("read only is obeyed, with an isolation level too", async () => {
    const writing = db
      .transaction()
      .setAccessMode("read only")
      .setIsolationLevel("serializable")
      .execute((trx) => add(trx, 1));
    await expect(writing).rejects.toThrow("SQLState: 25006");
  });

  test("without any it says nothing", async () => {
    await db.transaction().execute((trx) => add(trx, 1));
    expect(own.api.stats().operations).toMatchObject({ ExecuteStatement: 1 });
  });
});

test("savepoints: what follows one is taken back, what precedes it stays", async () => {
  const trx = await db.startTransaction().execute();
  await add(trx, 1);
  const inner = await trx.savepoint('odd "name"').execute();
  await add(inner, 2);
  await expect(add(inner, 1)).rejects.toThrow("23505");
  const back = await inner.rollbackToSavepoint('odd "name"').execute();
  await add(back, 3);
  await back.releaseSavepoint('odd "name"').execute();
  await trx.commit().execute();
  expect(await numbers()).toEqual([1, 3]);
});

describe("an error inside", () => {
  test("is not replaced by that of its rollback", async () => {
    own.api.faults.add({ kind: "error", match: "RollbackTransaction", code: "NotFoundException" });
    const failing = db.transaction().execute(async (trx) => {
      await add(trx, 1);
      await add(trx, 1);
    });
    await expect(failing).rejects.toThrow("SQLState: 23505");
    expect(own.api.faults.list()).toEqual([]);
  });

  test("of the commit is the one that is heard", async () => {
    own.api.faults.add({ kind: "error", match: "CommitTransaction", code: "40001" });
    await expect(db.transaction().execute((trx) => add(trx, 1))).rejects.toThrow("SQLState: 40001");
    expect(await numbers()).toEqual([]);
  });
});

test("a connection is used again after a commit and after a rollback", async () => {
  await db.connection().execute(async (connection) => {
    await connection.transaction().execute((trx) => add(trx, 1));
    await add(connection, 2);
    await connection
      .transaction()
      .execute(async (trx) => {
        await add(trx, 3);
        throw new Error("no");
      })
      .catch(() => undefined);
    await add(connection, 4);
  });
  expect(await numbers()).toEqual([1, 2, 4]);
});

test("a migration takes no lock of a session, which a stateless call cannot hold", async () => {
  const { Migrator } = await import("kysely");
  const migrator = new Migrator({
    db,
    provider: { getMigrations: async () => ({ a: { up: async (on) => void (await add(on, 9)) } }) },
  });
  const { error } = await migrator.migrateToLatest();
  expect(error).toBeUndefined();
  expect(await numbers()).toEqual([9]);
  const locks = await database.ownerPool.query(
    "select 1 from pg_locks l join pg_database d on d.oid = l.database where d.datname = current_database() and l.locktype = 'advisory'",
  );
  expect(locks.rows).toEqual([]);
});
