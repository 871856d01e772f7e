import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type DataApiDatabase, NOW } from "../../../lib/index.ts";
import { drivenClock } from "../../support/driven-clock.ts";
import { itemOf } from "../../support/endings.ts";
import { openTransaction, stopReads } from "../../support/overlap.ts";
import { FREE, hold, lockOf, lockRows, takeRow } from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine, type RelatedSchema } from "../../support/related-tables.ts";
import { answer, applyRows, fetchRows, untilBlocked } from "../../support/steps.ts";
import { until } from "../../support/until.ts";
import { twice, writerOn } from "../../support/writers.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
  // as a stack's migration sets it; for sessions that are made from here on
  await engine.admin(`alter role millrace_app in database ${engine.database.name} set lock_timeout = '2s'`);
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const member = async () => {
  const group = await engine.group(1);
  return { group: group.id, id: group.members[0]! };
};
const expire = (table: string, id: string) =>
  engine.query(`update ${table} set lock_expires_at = now() - interval '1 s' where id = $1`, [id]);
const once = { waitSeconds: 0 };
const logs = () => engine.query("select thing_id, message from logs order by id");

test("a free row is written, due at once, answered, and every pipeline of its table hinted", async () => {
  const { id } = await member();
  await engine.query("update members set due_at = now() + interval '1 h', busy = 1");
  const writer = writerOn(engine);
  expect(await writer.update("members", id, { note: "new" })).toMatchObject({ id, note: "new", busy: 1 });
  expect(writer.hinted()).toEqual(["members"]);
  expect(await fetchRows(engine, { pipeline: "members" })).toMatchObject({ ids: [id] });
});

test("attempts of an item that has ended start again, and a dead row lives", async () => {
  const id = await engine.insert("tasks");
  await engine.query(
    "insert into millrace.items (item_id, pipeline, state, attempts, resets, finished_at) select $1, p, 'dead', 5, 2, now() from unnest('{tasks,endings}'::text[]) p",
    [id],
  );
  await writerOn(engine).update("tasks", id, { status: "done" });
  const items = await engine.query("select pipeline, state, attempts, resets from millrace.items order by pipeline");
  expect(items).toEqual([
    { pipeline: "endings", state: "failed", attempts: 0, resets: 1 },
    { pipeline: "tasks", state: "failed", attempts: 0, resets: 1 },
  ]);
});

test("a held row is waited for outside of any transaction, then ROW_LOCKED; nothing has changed", async () => {
  const { id } = await member();
  const held = await takeRow(engine, "members", id);
  const clock = drivenClock();
  const writer = writerOn(engine, clock);
  const updating = writer.update(
    "members",
    id,
    { note: "no" },
    { waitSeconds: 1, insert: { logs: [{ thing_id: id, message: "no" }] } },
  );
  const failed = expect(updating).rejects.toMatchObject({ code: "ROW_LOCKED", status: 423, details: { seconds: 1 } });
  const waits: number[] = [];
  while (waits.reduce((sum, ms) => sum + ms, 0) < 1000) {
    const [ms] = await until(() => (clock.waits().length > 0 ? clock.waits() : null), { what: "the writer to wait" });
    const open = await engine.admin(
      "select query from pg_stat_activity where datname = current_database() and usename = 'millrace_app' and (xact_start is not null or state <> 'idle')",
    );
    expect(open).toEqual([]);
    waits.push(ms!);
    await clock.advance(ms!);
  }
  await failed;
  expect(waits.slice(0, 3)).toEqual([100, 150, 225]);
  expect(await engine.row("members", id)).toMatchObject({ note: null, lock_token: held.token, lock_owner: "members" });
  expect(await itemOf(engine, id)).toMatchObject({ state: "processing", lock_token: held.token });
  expect(await logs()).toEqual([]);
  expect(writer.hinted()).toEqual([]);
});

test("a row that is given back meanwhile is written", async () => {
  const { id } = await member();
  const held = await takeRow(engine, "members", id);
  const clock = drivenClock();
  const updating = writerOn(engine, clock).update("members", id, { note: "later" });
  await until(() => clock.waits().length > 0, { what: "the writer to wait" });
  await applyRows(engine, [answer(held)], { pipeline: "members" });
  await clock.advance(100);
  expect(await updating).toMatchObject({ note: "later" });
});

test("a row that an open transaction keeps for longer than the lock timeout counts as held", async () => {
  const { id } = await member();
  await using other = await openTransaction(engine);
  await other.query("select 1 from members where id = $1 for update", [id]);
  const failing = writerOn(engine).update("members", id, { note: "no" }, once);
  await expect(failing).rejects.toMatchObject({ code: "ROW_LOCKED" });
});

describe("an expired lock", () => {
  test("is taken away: its holder's answer is stale, its item ended", async () => {
    const { id } = await member();
    const slow = await takeRow(engine, "members", id);
    await expire("members", id);
    await writerOn(engine).update("members", id, { note: "ours" }, once);
    expect(await lockOf(engine, "members", id)).toEqual(FREE);
    expect(await itemOf(engine, id)).toMatchObject({ state: "lost", lock_token: null, alive_until: null, attempts: 0 });
    expect((await itemOf(engine, id))["finished_at"]).not.toBeNull();
    expect(await applyRows(engine, [answer(slow, { set: { note: "slow" } })], { pipeline: "members" })).toMatchObject([
      { result: "stale" },
    ]);
    expect(await engine.row("members", id)).toMatchObject({ note: "ours" });
  });

  test("of a pass that holds related rows: its item stays in flight, without being alive, for the sweep", async () => {
    const group = await engine.group(1);
    const held = await takeRow(engine, "groups", group.id);
    expect(await lockRows(engine, "groups", [held])).toMatchObject([{ result: "locked" }]);
    await expire("groups", group.id);
    await writerOn(engine).update("groups", group.id, { name: "ours" }, once);
    expect(await itemOf(engine, group.id)).toMatchObject({
      state: "lost",
      lock_token: null,
      alive_until: null,
      finished_at: null,
      related: { members: group.members },
    });
  });

  test("that nobody owns is taken away, that of an unknown owner is not", async () => {
    const { id } = await member();
    await hold(engine, "members", id, { owner: null, seconds: -1 });
    await writerOn(engine).update("members", id, { note: "1" }, once);
    await hold(engine, "members", id, { owner: "somebody", seconds: -1 });
    const failing = writerOn(engine).update("members", id, { note: "2" }, once);
    await expect(failing).rejects.toMatchObject({ code: "ROW_LOCKED" });
  });
});

test("a row that is owned without a token is free, and its owner stays", async () => {
  const { id } = await member();
  await hold(engine, "members", id, { owner: "groups", token: null, seconds: null });
  await writerOn(engine).update("members", id, { note: "x" }, once);
  expect(await engine.row("members", id)).toMatchObject({ note: "x", lock_owner: "groups", lock_token: null });
});

describe("a related lock", () => {
  test("is free once it is dead, whatever its expiry", async () => {
    const { id } = await member();
    await hold(engine, "members", id, { owner: "groups", seconds: 30 });
    await writerOn(engine).update("members", id, { note: "1" }, once);
    expect(await lockOf(engine, "members", id)).toEqual(FREE);
    await hold(engine, "members", id, { owner: `endings:${crypto.randomUUID()}`, seconds: 30 });
    await writerOn(engine).update("members", id, { note: "2" }, once);
    expect(await lockOf(engine, "members", id)).toEqual(FREE);
  });

  test.each([30, -1])("is held while its main row has the token, expiring in %s s", async (seconds) => {
    const { id, group } = await member();
    const token = crypto.randomUUID();
    await hold(engine, "groups", group, { owner: "groups", token, seconds });
    await hold(engine, "members", id, { owner: "groups", token, seconds });
    const failing = writerOn(engine).update("members", id, { note: "no" }, once);
    await expect(failing).rejects.toMatchObject({ code: "ROW_LOCKED" });
    expect(await engine.row("members", id)).toMatchObject({ note: null, lock_token: token });
  });

  test("that is taken anew after the look is held: the verdict was on another token", async () => {
    const { id, group } = await member();
    await hold(engine, "members", id, { owner: "groups" });
    const token = crypto.randomUUID();
    await using stop = await stopReads(engine, "members");
    const updating = writerOn(engine).update("members", id, { note: "no" }, once);
    const failed = expect(updating).rejects.toMatchObject({ code: "ROW_LOCKED" });
    await untilBlocked(engine);
    await hold(engine, "groups", group, { owner: "groups", token });
    await hold(engine, "members", id, { owner: "groups", token });
    await stop.goOn();
    await failed;
    expect(await engine.row("members", id)).toMatchObject({ note: null, lock_token: token });
  });
});

test("a claim that has not committed is waited for, and keeps the row", async () => {
  const { id } = await member();
  await using other = await openTransaction(engine);
  const { token } = await fetchRows(engine, { pipeline: "members", run: other.run });
  const updating = writerOn(engine).update("members", id, { note: "no" }, once);
  const failed = expect(updating).rejects.toMatchObject({ code: "ROW_LOCKED" });
  await untilBlocked(engine);
  await other.commit();
  await failed;
  expect(await engine.row("members", id)).toMatchObject({ note: null, lock_token: token });
});

test("new rows go into the same statement, and NOW is its instant", async () => {
  const { id } = await member();
  await writerOn(engine).update(
    "members",
    id,
    { note: "x" },
    { insert: { logs: [{ at: NOW, thing_id: id, message: "noted" }] } },
  );
  const [log] = await engine.query(
    "select l.at = m.due_at as same, l.message from logs l join members m on m.id = l.thing_id",
  );
  expect(log).toEqual({ same: true, message: "noted" });
});

test("sent twice it writes once, also when the row is held again by then", async () => {
  const { id } = await member();
  const writer = writerOn(engine, undefined, twice(engine.api as unknown as DataApiDatabase<RelatedSchema>));
  const insert = { logs: [{ thing_id: id, message: "once" }] };
  expect(await writer.update("members", id, { note: "x" }, { insert })).toMatchObject({ id, note: "x" });
  await writer.request("groups", (await engine.row("members", id))["group_id"] as string, { wanted: 3 }, { insert });
  expect(await logs()).toHaveLength(2);
  const between = {
    ...engine.api,
    async run(statement: never, options: never) {
      await engine.api.run(statement, options);
      await takeRow(engine, "members", id);
      return engine.api.run(statement, options);
    },
  } as unknown as DataApiDatabase<RelatedSchema>;
  await writerOn(engine, undefined, between).update("members", id, { note: "y" }, { ...once, insert });
  expect(await logs()).toHaveLength(3);
});

test("a request with new rows: held or not, once", async () => {
  const { id } = await engine.group(0);
  const held = await takeRow(engine, "groups", id);
  const writer = writerOn(engine);
  await writer.request("groups", id, { wanted: 3 }, { insert: { logs: [{ thing_id: id, message: "asked" }] } });
  expect(await engine.row("groups", id)).toMatchObject({ wanted: 3, lock_token: held.token, lock_owner: "groups" });
  expect(await itemOf(engine, id)).toMatchObject({ state: "processing", attempts: 1, lock_token: held.token });
  expect(await logs()).toEqual([{ thing_id: id, message: "asked" }]);
  expect(await applyRows(engine, [answer(held, { due: 3600 })], { pipeline: "groups" })).toMatchObject([
    { result: "applied", hint: "groups" },
  ]);
});

test.each([
  ["a row that does not exist", "members", crypto.randomUUID(), {}, "NO_SUCH_ROW"],
  ["an id that is none", "members", "x", {}, "ID_MALFORMED"],
  ["a table without pipelines", "logs", crypto.randomUUID(), {}, "TABLE_UNKNOWN"],
  ["a column of the engine", "members", crypto.randomUUID(), { lock_token: null }, "PATCH_COLUMN"],
])("%s", async (_, table, id, set, code) => {
  await expect(writerOn(engine).update(table as "members", id, set as never)).rejects.toMatchObject({ code });
});
