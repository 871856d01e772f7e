import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createWriter, type Writer } from "../../../lib/index.ts";
import { takeNew, thingOf } from "../../support/endings.ts";
import { createEngine, type Schema, type TestEngine } from "../../support/engine.ts";
import { answer, applyRows, fetchRows } from "../../support/steps.ts";

let engine: TestEngine;
let hinted: string[];
let writer: Writer<Schema>;
beforeAll(async () => {
  engine = await createEngine();
  writer = createWriter<Schema>({
    database: engine.api,
    registry: engine.registry,
    hints: { send: async (hints) => void hinted.push(...hints.map((h) => h.body)) },
  });
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(async () => {
  await engine.clear();
  hinted = [];
});

const any = (value: string) => value as never;

test("stores the intent of a held row, and hints every pipeline of the table", async () => {
  const a = await takeNew(engine);
  await writer.request("things", a.id, { to_be_deleted: true });
  expect(await thingOf(engine, a.id)).toMatchObject({ to_be_deleted: true, lock_token: a.token });
  expect(hinted.map((body) => JSON.parse(body).pipeline).sort()).toEqual(["checks", "things"]);
  await applyRows(engine, [answer(a)]);
  expect(await fetchRows(engine)).toMatchObject({ ids: [a.id] });
});

test.each([
  ["an id that is none", "nonsense", "ID_MALFORMED", 400],
  ["an id with more behind it", `${crypto.randomUUID()}'`, "ID_MALFORMED", 400],
  ["an empty id", "", "ID_MALFORMED", 400],
  ["a row that does not exist", crypto.randomUUID(), "NO_SUCH_ROW", 404],
])("%s", async (_, id, code, status) => {
  await expect(writer.request("things", id, { to_be_deleted: true })).rejects.toMatchObject({ code, status });
  expect(hinted).toEqual([]);
});

test("a table that no pipeline works on: says which have some", async () => {
  const failing = writer.request(any("logs"), crypto.randomUUID(), {} as never);
  await expect(failing).rejects.toMatchObject({ code: "TABLE_UNKNOWN", message: expect.stringContaining("things") });
});

test("a value that cannot be sent", async () => {
  const id = await engine.thing();
  const failing = writer.request("things", id, { to_be_deleted: (() => true) as never });
  await expect(failing).rejects.toMatchObject({ code: "VALUE_UNSUPPORTED" });
});

test("bad data is the caller's error, and nothing is hinted", async () => {
  const id = await engine.thing();
  const failing = writer.request("things", id, { to_be_deleted: null as never });
  await expect(failing).rejects.toMatchObject({ code: "STATEMENT_FAILED", details: { sqlState: "23502" } });
  expect(hinted).toEqual([]);
});

test("a row that is locked for longer than the lock timeout is waited for", async () => {
  await engine.admin(`alter role millrace_app in database ${engine.database.name} set lock_timeout = '100ms'`);
  const id = await engine.thing();
  const other = await engine.database.connect();
  await other.query("begin");
  await other.query("select 1 from things for update");
  const requesting = writer.request("things", id, { to_be_deleted: true });
  await other.query("select pg_stat_clear_snapshot()");
  await other.query("rollback");
  await requesting;
  expect(await thingOf(engine, id)).toMatchObject({ to_be_deleted: true });
});
