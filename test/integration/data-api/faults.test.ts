import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { DataApi } from "../../../infra/local/data-api/index.ts";
import { type Calls, callsTo, ownDataApi } from "../../support/data-api-calls.ts";
import { createTestDatabase, type TestDatabase } from "../../support/test-database.ts";
import { until } from "../../support/until.ts";

let db: TestDatabase;
let own: { api: DataApi; endpoint: string; close(): Promise<void> };
let calls: Calls;

beforeAll(async () => {
  db = await createTestDatabase();
  await db.ownerPool.query("create table t (id int)");
});
beforeEach(async () => {
  await db.ownerPool.query("truncate t");
  own = await ownDataApi();
  calls = callsTo(db, { endpoint: own.endpoint });
});
afterEach(() => own.close());
afterAll(() => db.drop());

const count = async () => (await db.ownerPool.query("select count(*)::int as n from t")).rows[0].n;
const insert = (transactionId?: string) => calls.execute("insert into t values (1)", {}, { transactionId });
const failure = (call: Promise<unknown>) =>
  call.then(
    () => undefined,
    (error) => error,
  );
const name = async (call: Promise<unknown>) => (await failure(call))?.name ?? (await failure(call))?.code;

describe("lostAnswer", () => {
  test("the statement takes effect, the connection drops", async () => {
    own.api.faults.add({ kind: "lostAnswer", match: "insert" });
    expect(await failure(insert())).toMatchObject({ code: "ECONNRESET" });
    expect(await count()).toBe(1);
    await insert();
    expect(await count()).toBe(2);
  });

  test("of a commit: it is committed", async () => {
    const id = await calls.begin();
    await insert(id);
    own.api.faults.add({ kind: "lostAnswer", match: "CommitTransaction" });
    expect(await failure(calls.commit(id))).toMatchObject({ code: "ECONNRESET" });
    expect(await count()).toBe(1);
  });

  test("of a begin: the transaction stays open until it expires", async () => {
    own.api.faults.add({ kind: "lostAnswer", match: "BeginTransaction" });
    expect(await failure(calls.begin())).toMatchObject({ code: "ECONNRESET" });
    expect(own.api.stats().transactions).toBe(1);
  });
});

describe("error", () => {
  test("40P01 by default, and nothing has run", async () => {
    own.api.faults.add({ kind: "error" });
    expect((await failure(insert())).message).toBe("ERROR: deadlock detected; SQLState: 40P01");
    expect(await count()).toBe(0);
  });

  test("in a transaction it leaves 25P02 behind", async () => {
    const id = await calls.begin();
    own.api.faults.add({ kind: "error", match: "insert", code: "55P03" });
    expect((await failure(insert(id))).message).toContain("lock timeout; SQLState: 55P03");
    expect((await failure(insert(id))).message).toContain("SQLState: 25P02");
    await calls.rollback(id);
  });

  test("of a commit it rolls back", async () => {
    const id = await calls.begin();
    await insert(id);
    own.api.faults.add({ kind: "error", match: "Commit", code: "40001" });
    expect((await failure(calls.commit(id))).message).toContain("SQLState: 40001");
    expect(await count()).toBe(0);
    expect(await name(calls.rollback(id))).toBe("TransactionNotFoundException");
  });

  test("it may be any exception of the service", async () => {
    const id = await calls.begin();
    own.api.faults.add({ kind: "error", match: "Commit", code: "TransactionNotFoundException" });
    expect(await failure(calls.commit(id))).toMatchObject({
      name: "TransactionNotFoundException",
      $metadata: { httpStatusCode: 404 },
    });
    expect(own.api.stats().transactions).toBe(0);
  });
});

describe("resuming and unavailable", () => {
  test("the first calls fail, worded as the service does, and nothing has run", async () => {
    own.api.faults.add({ kind: "resuming", count: 2 });
    const error = await failure(insert());
    expect(error).toMatchObject({ name: "DatabaseResumingException", $metadata: { httpStatusCode: 400 } });
    expect(error.message).toBe(
      `The Aurora DB instance ${db.dataApiConfig.clusterArn} is resuming after being auto-paused. Please wait a few seconds and try again.`,
    );
    expect(await name(calls.begin())).toBe("DatabaseResumingException");
    await insert();
    expect(await count()).toBe(1);
  });

  test("a commit cannot get it", async () => {
    const id = await calls.begin();
    own.api.faults.add({ kind: "resuming" });
    expect(await calls.commit(id)).toBe("Transaction Committed");
  });

  test("504 without a message", async () => {
    own.api.faults.add({ kind: "unavailable" });
    expect(await failure(insert())).toMatchObject({
      name: "DatabaseUnavailableException",
      $metadata: { httpStatusCode: 504 },
    });
    expect(await count()).toBe(0);
  });
});

describe("delay and hang", () => {
  test("a delayed call runs later", async () => {
    own.api.faults.add({ kind: "delay", match: "insert", seconds: 0.2 });
    const before = performance.now();
    await insert();
    expect(performance.now() - before).toBeGreaterThanOrEqual(195);
    expect(await count()).toBe(1);
  });

  test("a hanging call is lost when the server closes", async () => {
    own.api.faults.add({ kind: "hang" });
    const hanging = failure(insert());
    await until(() => own.api.stats().inFlight === 1 && own.api.faults.list().length === 0, {
      what: "the call to hang",
    });
    await own.api.close();
    expect(await hanging).toMatchObject({ code: "ECONNRESET" });
    expect(await count()).toBe(0);
  });

  test("a hanging call can be given up by its caller", async () => {
    own.api.faults.add({ kind: "hang" });
    const { client, input } = calls.command("insert into t values (1)");
    const abort = new AbortController();
    const hanging = failure(client.send(input, { abortSignal: abort.signal }));
    await until(() => own.api.faults.list().length === 0, { what: "the call to hang" });
    abort.abort();
    expect(await hanging).toMatchObject({ name: "AbortError" });
  });
});

describe("the list of faults", () => {
  test("counts down and can be cleared", async () => {
    own.api.faults.add({ kind: "error", match: "insert", count: 3 });
    await failure(insert());
    expect(own.api.faults.list()).toEqual([{ kind: "error", match: "insert", count: 3, left: 2 }]);
    own.api.faults.clear();
    await insert();
    expect(await count()).toBe(1);
  });

  test("does not touch calls that do not match", async () => {
    own.api.faults.add({ kind: "error", match: "delete" });
    await insert();
    expect(own.api.faults.list()).toHaveLength(1);
  });

  test.each([
    { kind: "nonsense" },
    { kind: "error", count: 0 },
    { kind: "delay", seconds: -1 },
    { kind: "error", code: "nonsense" },
  ])("refuses %o", (spec) => {
    expect(() => own.api.faults.add(spec as never)).toThrow(expect.objectContaining({ code: "BAD_REQUEST" }));
  });
});
