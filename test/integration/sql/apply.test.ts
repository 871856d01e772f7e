import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { InsertGroup } from "../../../lib/sql/insert.ts";
import { itemOf, takeNew, thingOf } from "../../support/endings.ts";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { answer, applyRows, type Claimed, untilBlocked } from "../../support/steps.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine();
  await engine.query(`create type mood as enum ('calm', 'wild')`);
  await engine.query(`alter table things add ratio float8, add amount numeric, add feel mood, add raw bytea, add counts int[], add born date,
    add address inet, add opened boolean, add one_row boolean`);
  await engine.query("grant all on all tables in schema public to millrace_app");
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const logs = (rows: InsertGroup["rows"], columns: readonly string[]): InsertGroup => ({ table: "logs", columns, rows });
const log = (of: Claimed, row: Readonly<Record<string, unknown>>, nows: readonly string[] = []) => ({
  item: of.id,
  token: of.token,
  row,
  nows,
});
const messages = async () =>
  (await engine.query<{ message: string }>("select message from logs order by message")).map((l) => l.message);

describe("set", () => {
  test("different columns for each item of a batch: the others keep what they have", async () => {
    const a = await takeNew(engine, { note: "a" });
    const b = await takeNew(engine, { note: "b", size: 7 });
    const c = await takeNew(engine, { note: "c", spec: { kept: true } });
    const results = await applyRows(engine, [
      answer(a, { set: { size: 2 } }),
      answer(b, { set: { note: "new" } }),
      answer(c, { set: { tags: ["x", "y"], size: 9 } }),
    ]);
    expect(results.map((r) => r.result)).toEqual(["applied", "applied", "applied"]);
    expect(await thingOf(engine, a.id)).toMatchObject({ note: "a", size: 2, tags: [] });
    expect(await thingOf(engine, b.id)).toMatchObject({ note: "new", size: 7, tags: [] });
    expect(await thingOf(engine, c.id)).toMatchObject({ note: "c", size: 9, tags: ["x", "y"], spec: { kept: true } });
  });

  test("a column that another transaction writes while the apply waits keeps the newest value", async () => {
    const a = await takeNew(engine, { note: "old" });
    const b = await takeNew(engine);
    const other = await engine.database.connect();
    await other.query("begin");
    await other.query("update things set to_be_deleted = true where id = $1", [a.id]);
    const applying = applyRows(engine, [answer(a, { set: { size: 5 } }), answer(b, { set: { to_be_deleted: false } })]);
    await untilBlocked(engine);
    await other.query("commit");
    expect((await applying).map((r) => r.result)).toEqual(["applied", "applied"]);
    expect(await thingOf(engine, a.id)).toMatchObject({ note: "old", to_be_deleted: true, size: 5 });
  });

  test("values of every type arrive exactly", async () => {
    const a = await takeNew(engine);
    const set = {
      big: "9007199254740993",
      spec: { deep: [{ value: { stringValue: "x" } }, null, 1.5], text: 'quo"te \\ 🌊' },
      tags: ['a "b" {c}', "d,e", "", "NULL"],
      counts: [1, null, 3],
      seen_at: "2026-01-02 03:04:05.678912+00",
      ratio: "NaN",
      amount: "12345678901234567890.123456789",
      feel: "wild",
      raw: "\\x00ff10",
      born: "2024-02-29",
      address: "10.0.0.1/8",
      opened: false,
      note: "it's :not a parameter",
    };
    await applyRows(engine, [answer(a, { set })]);
    const [row] = await engine.query(
      `select big::text, spec, tags, counts, seen_at::text, ratio::text, amount::text, feel, encode(raw, 'hex') as raw, born::text,
        address::text, opened, note from things`,
    );
    expect(row).toEqual({ ...set, seen_at: "2026-01-02 03:04:05.678912+00", raw: "00ff10" });
  });

  test("null clears a column; another item's column of the same batch is not cleared with it", async () => {
    const a = await takeNew(engine, { note: "a" });
    const b = await takeNew(engine, { note: "b" });
    await applyRows(engine, [answer(a, { set: { note: null } }), answer(b)]);
    expect(await thingOf(engine, a.id)).toMatchObject({ note: null });
    expect(await thingOf(engine, b.id)).toMatchObject({ note: "b" });
  });

  test("NOW is the same microsecond everywhere: main row, new rows, last_processed_at", async () => {
    const a = await takeNew(engine);
    const inserts = [logs([log(a, { message: "m" }, ["at"])], ["at", "message"])];
    await applyRows(engine, [answer(a, { nows: ["seen_at"] })], { inserts });
    const [same] = await engine.query(
      "select seen_at = last_processed_at as main, at = last_processed_at as log from things, logs",
    );
    expect(same).toEqual({ main: true, log: true });
  });
});

describe("insert", () => {
  test("rows with different columns get their defaults for the others", async () => {
    const a = await takeNew(engine);
    const inserts = [
      logs([log(a, { message: "one" })], ["message"]),
      logs([log(a, { message: "two", level: "warn" })], ["level", "message"]),
      logs([log(a, { message: "three", thing_id: a.id })], ["message", "thing_id"]),
    ];
    await applyRows(engine, [answer(a)], { inserts });
    expect(
      await engine.query("select message, level, thing_id, at is not null as at from logs order by message"),
    ).toEqual([
      { message: "one", level: "info", thing_id: null, at: true },
      { message: "three", level: "info", thing_id: a.id, at: true },
      { message: "two", level: "warn", thing_id: null, at: true },
    ]);
  });

  test("a row that names no column gets all defaults", async () => {
    await engine.query("create table if not exists ticks (at timestamptz not null default now(), n int default 3)");
    await engine.query("grant all on ticks to millrace_app");
    const a = await takeNew(engine);
    const inserts = [{ table: "ticks", columns: [], rows: [log(a, {}), log(a, {})] }];
    expect(await applyRows(engine, [answer(a)], { inserts })).toMatchObject([{ result: "applied" }]);
    expect(await engine.query("select n from ticks")).toEqual([{ n: 3 }, { n: 3 }]);
  });

  test("only rows of accepted items are inserted", async () => {
    const a = await takeNew(engine);
    const b = await takeNew(engine);
    await engine.query("update things set lock_token = gen_random_uuid() where id = $1", [b.id]);
    const inserts = [logs([log(a, { message: "of a" }), log(b, { message: "of b" })], ["message"])];
    expect(await applyRows(engine, [answer(a), answer(b)], { inserts })).toMatchObject([
      { id: a.id, result: "applied" },
      { id: b.id, result: "stale" },
    ]);
    expect(await messages()).toEqual(["of a"]);
  });

  test("a row of an old pass over an accepted item is not inserted", async () => {
    const old = await takeNew(engine);
    const now = { ...old, token: crypto.randomUUID() };
    await engine.query("update things set lock_token = $1", [now.token]);
    await engine.query("update millrace.items set lock_token = $1", [now.token]);
    const inserts = [logs([log(old, { message: "old" }), log(now, { message: "now" })], ["message"])];
    const results = await applyRows(engine, [answer(old), answer(now)], { inserts });
    expect(new Map(results.map((r) => [r.token, r.result]))).toEqual(
      new Map([
        [old.token, "stale"],
        [now.token, "applied"],
      ]),
    );
    expect(await messages()).toEqual(["now"]);
  });
});

describe("delete", () => {
  test("removes the row, keeps what it inserts, and ends the item", async () => {
    const a = await takeNew(engine, { to_be_deleted: true });
    const b = await takeNew(engine);
    const inserts = [logs([log(a, { message: "gone" })], ["message"])];
    const results = await applyRows(engine, [answer(a, { delete: true }), answer(b)], { inserts });
    expect(results.map((r) => r.result)).toEqual(["applied", "applied"]);
    expect(await engine.query("select id from things")).toEqual([{ id: b.id }]);
    expect(await messages()).toEqual(["gone"]);
    expect(await itemOf(engine, a.id)).toMatchObject({ state: "applied", lock_token: null });
  });

  test("a stale one deletes nothing", async () => {
    const a = await takeNew(engine, { to_be_deleted: true });
    await engine.query("update things set lock_token = gen_random_uuid()");
    expect(await applyRows(engine, [answer(a, { delete: true })])).toMatchObject([{ result: "stale" }]);
    expect(await thingOf(engine, a.id)).toBeDefined();
  });

  test("repeated after a lost answer it says already", async () => {
    const a = await takeNew(engine, { to_be_deleted: true });
    await applyRows(engine, [answer(a, { delete: true })]);
    expect(await applyRows(engine, [answer(a, { delete: true })])).toMatchObject([{ result: "already", hint: null }]);
  });

  test("waits for an open insert that refers to the row, then fails whole where that was committed", async () => {
    await engine.query("create table if not exists parts (thing_id uuid references things)");
    const a = await takeNew(engine, { to_be_deleted: true });
    const other = await engine.database.connect();
    await other.query("begin");
    await other.query("insert into parts values ($1)", [a.id]);
    const applying = applyRows(engine, [answer(a, { delete: true })]).catch((error: unknown) => error);
    await untilBlocked(engine);
    await other.query("commit");
    const error = await applying;
    await engine.query("drop table parts");
    expect(error).toMatchObject({ code: "STATEMENT_FAILED", details: { sqlState: "23503" } });
    expect(await thingOf(engine, a.id)).toMatchObject({ lock_token: a.token });
  });
});

test.each([
  ["22001", { short: "x".repeat(300) }],
  ["22P02", { big: "no number" }],
  ["23514", { size: -1 }],
  ["23502", { name: null }],
])("bad data of one item (%s) fails its batch whole", async (sqlState, set) => {
  await engine.query("alter table things add column short varchar(200), add constraint positive check (size > 0)");
  try {
    const a = await takeNew(engine);
    const b = await takeNew(engine);
    const applying = applyRows(engine, [answer(a, { set: { note: "a" } }), answer(b, { set })]);
    await expect(applying).rejects.toMatchObject({ code: "STATEMENT_FAILED", details: { sqlState } });
    expect(await thingOf(engine, a.id)).toMatchObject({ note: null, lock_token: a.token });
    expect(await itemOf(engine, a.id)).toMatchObject({ state: "processing", finished_tokens: [] });
  } finally {
    await engine.query("alter table things drop column short, drop constraint positive");
  }
});
