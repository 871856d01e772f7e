import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { DataApi, Warning } from "../../../infra/local/data-api/index.ts";
import { type Calls, callsTo, ownDataApi } from "../../support/data-api-calls.ts";
import { createTestDatabase, type TestDatabase } from "../../support/test-database.ts";

let db: TestDatabase;
let calls: Calls;
let own: { api: DataApi; endpoint: string; close(): Promise<void> };
let clock: number;
let warnings: Warning[];

beforeAll(async () => {
  db = await createTestDatabase();
  await db.ownerPool.query("create table t (id int primary key, v text)");
});
beforeEach(async () => {
  clock = 1_000_000;
  warnings = [];
  await db.ownerPool.query("truncate t");
  own = await ownDataApi({ now: () => clock, onWarning: (warning) => warnings.push(warning) });
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

describe("idleness, by an injected clock", () => {
  test("after three minutes it is rolled back, and its locks are free", async () => {
    const id = await calls.begin();
    await insert(1, id);
    clock += 3 * 60_000;
    await calls.execute("select 1");
    expect((await insert(1)).numberOfRecordsUpdated).toBe(1);
    expect(await message(calls.commit(id))).toBe(
      `TransactionNotFoundException Transaction ${id} is not found. Transaction may be expired.`,
    );
  });

  test("control: just under three minutes it lives, and each call starts them anew", async () => {
    const id = await calls.begin();
    for (const row of [1, 2, 3]) {
      clock += 3 * 60_000 - 1;
      await insert(row, id);
    }
    await calls.commit(id);
    expect(await count()).toBe(3);
  });

  test("after 24 hours it ends, however busy", async () => {
    const id = await calls.begin();
    for (let minutes = 0; minutes < 24 * 60; minutes += 2) {
      clock += 2 * 60_000;
      if (minutes < 24 * 60 - 2) await calls.execute("select 1", {}, { transactionId: id });
    }
    expect(await message(calls.commit(id))).toContain("Transaction may be expired.");
  });

  test("more than 100 ms between two calls is worth a warning", async () => {
    const id = await calls.begin();
    clock += 100;
    await insert(1, id);
    expect(warnings).toEqual([]);
    clock += 101;
    await calls.commit(id);
    expect(warnings).toEqual([
      {
        kind: "idleTransaction",
        transactionId: id,
        idleMs: 101,
        after: "insert into t (id) values (:id)",
        before: "commit",
      },
    ]);
  });
});
