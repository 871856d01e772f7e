import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type DataApiDatabase, NOW } from "../../../lib/index.ts";
import { itemOf } from "../../support/endings.ts";
import { gate } from "../../support/gate.ts";
import { openTransaction } from "../../support/overlap.ts";
import { FREE, hold, lockOf, takeRow } from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine, type RelatedSchema } from "../../support/related-tables.ts";
import { answer, applyRows, fetchRows, untilBlocked } from "../../support/steps.ts";
import { twice, writerOn } from "../../support/writers.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
  await engine.admin(`alter role millrace_app in database ${engine.database.name} set lock_timeout = '2s'`);
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const once = { waitSeconds: 0 };
const never = async () => expect.unreachable("work without its rows");
const logs = () => engine.query("select message from logs order by id");
const repeating = () => writerOn(engine, undefined, twice(engine.api as unknown as DataApiDatabase<RelatedSchema>));

test("holds all rows while the work runs: in the order asked for, fenced, given back, hinted", async () => {
  const [a, b] = (await engine.group(2)).members as [string, string];
  const writer = writerOn(engine);
  const result = await writer.withLock("members", [b, a], {}, async (rows) => {
    expect(rows.map((r) => r.id)).toEqual([b, a]);
    const [one, two] = [await lockOf(engine, "members", a), await lockOf(engine, "members", b)];
    expect(one).toEqual({ token: expect.any(String), owner: null, live: true, held: true });
    expect(two).toEqual(one);
    expect(await fetchRows(engine, { pipeline: "members" })).toMatchObject({ ids: [] });
    expect(writer.hinted()).toEqual([]);
    return "done";
  });
  expect(result).toBe("done");
  expect(await lockOf(engine, "members", a)).toEqual(FREE);
  expect(await lockOf(engine, "members", b)).toEqual(FREE);
  expect(writer.hinted()).toEqual(["members"]);
});

test("one of three is held: none is locked, and the work never runs", async () => {
  const [a, b, c] = (await engine.group(3)).members as [string, string, string];
  const held = await takeRow(engine, "members", b);
  const locking = writerOn(engine).withLock("members", [a, b, c], once, never);
  await expect(locking).rejects.toMatchObject({ code: "ROW_LOCKED", status: 423 });
  expect(await lockOf(engine, "members", a)).toEqual(FREE);
  expect(await lockOf(engine, "members", c)).toEqual(FREE);
  expect(await engine.row("members", b)).toMatchObject({ lock_token: held.token });
});

test("one of them does not exist: none is locked", async () => {
  const [a] = (await engine.group(1)).members as [string];
  const id = crypto.randomUUID();
  const locking = writerOn(engine).withLock("members", [a, id], {}, never);
  await expect(locking).rejects.toMatchObject({ code: "NO_SUCH_ROW", details: { id } });
  expect(await lockOf(engine, "members", a)).toEqual(FREE);
});

test("work that throws: its error comes out, its rows are given back", async () => {
  const [a] = (await engine.group(1)).members as [string];
  const working = writerOn(engine).withLock("members", a, {}, async () => {
    throw new Error("no capacity");
  });
  await expect(working).rejects.toThrow("no capacity");
  expect(await lockOf(engine, "members", a)).toEqual(FREE);
});

test("each write takes a new token, makes the row due, and leaves it held; several at once go one by one", async () => {
  const [a, b] = (await engine.group(2)).members as [string, string];
  await engine.query("update members set due_at = null");
  await writerOn(engine).withLock("members", [a, b], {}, async ([row], held) => {
    const answers = await Promise.all([
      held.update(a, { busy: 1 }),
      held.update(a, { note: "x" }, { insert: { logs: [{ at: NOW, message: "x" }] } }),
      held.delete(b),
    ]);
    expect(answers[1]).toMatchObject({ id: a, busy: 1, note: "x" });
    expect(new Set([row!.lock_token, answers[0].lock_token, answers[1].lock_token]).size).toBe(3);
    expect(await engine.row("members", a)).toMatchObject({
      lock_token: answers[1].lock_token,
      due_at: expect.any(Date),
    });
    await expect(held.update(b, {})).rejects.toMatchObject({ code: "LOCK_LOST" });
  });
  expect(await lockOf(engine, "members", a)).toEqual(FREE);
  expect(await engine.query("select id from members")).toEqual([{ id: a }]);
  expect(await logs()).toHaveLength(1);
});

test("a write that the database refuses leaves the row held and is followed by others", async () => {
  const [a] = (await engine.group(1)).members as [string];
  await writerOn(engine).withLock("members", a, {}, async (_, held) => {
    await expect(held.update(a, { busy: null as never })).rejects.toMatchObject({ code: "STATEMENT_FAILED" });
    expect(await held.update(a, { busy: 1 })).toMatchObject({ busy: 1 });
  });
  expect(await lockOf(engine, "members", a)).toEqual(FREE);
});

test("after the lock was lost no write comes through, and the new holder keeps the row", async () => {
  const [a] = (await engine.group(1)).members as [string];
  await writerOn(engine).withLock("members", a, {}, async (_, held) => {
    await engine.query("update members set lock_expires_at = now() - interval '1 s'");
    const next = await takeRow(engine, "members", a);
    const insert = { logs: [{ message: "late" }] };
    await expect(held.update(a, { note: "late" }, { insert })).rejects.toMatchObject({
      code: "LOCK_LOST",
      status: 500,
    });
    await expect(held.delete(a)).rejects.toMatchObject({ code: "LOCK_LOST" });
    expect(await engine.row("members", a)).toMatchObject({ note: null, lock_token: next.token });
  });
  expect(await logs()).toEqual([]);
});

test.each([
  ["deletes nothing", async (held: { delete(id: string): Promise<void> }, id: string) => held.delete(id)],
  ["gives nothing back", async () => undefined],
])("a holder whose lock was lost %s", async (_, then) => {
  const [a] = (await engine.group(1)).members as [string];
  const token = crypto.randomUUID();
  const working = writerOn(engine).withLock("members", a, {}, async (_rows, held) => {
    await hold(engine, "members", a, { owner: "members", token });
    await then(held, a);
  });
  await working.catch((error: unknown) => expect(error).toMatchObject({ code: "LOCK_LOST" }));
  expect(await lockOf(engine, "members", a)).toMatchObject({ token, owner: "members", live: true });
});

test.each(["update", "updateAll"] as const)("after an %s the lock lasts as long as it did at first", async (how) => {
  const [a] = (await engine.group(1)).members as [string];
  await writerOn(engine).withLock("members", a, { lockSeconds: 60 }, async (_, held) => {
    await engine.query("update members set lock_expires_at = now() + interval '1 s'");
    await (how === "update" ? held.update(a, {}) : held.updateAll([a], {}));
    const late = await engine.query("select 1 from members where lock_expires_at > now() + interval '30 s'");
    expect(late).toHaveLength(1);
  });
});

test("an expired lock is taken over: the slow holder's answer is stale, its item ended", async () => {
  const [a] = (await engine.group(1)).members as [string];
  const slow = await takeRow(engine, "members", a);
  await engine.query("update members set lock_expires_at = now() - interval '1 s'");
  await writerOn(engine).withLock("members", a, once, async () => {
    expect(await lockOf(engine, "members", a)).toMatchObject({ owner: null, live: true });
    expect(await itemOf(engine, a)).toMatchObject({ state: "lost", lock_token: null, alive_until: null });
    const late = await applyRows(engine, [answer(slow, { set: { note: "slow" } })], { pipeline: "members" });
    expect(late).toMatchObject([{ result: "stale" }]);
  });
  expect(await engine.row("members", a)).toMatchObject({ note: null });
});

describe("an owner that was kept", () => {
  test.each(["members", "groups"])("%s stays after the row is given back", async (owner) => {
    const { id, members } = await engine.group(1);
    const [a] = members as [string];
    await hold(engine, "members", a, { owner, token: null, seconds: null });
    await hold(engine, "groups", id, { owner: "groups", token: null, seconds: null });
    const writer = writerOn(engine);
    await writer.withLock("members", a, once, async (_, held) => {
      await held.update(a, { note: "x" });
      // beside a token, the owner of a reservation would make it a dead lock of the parent: anybody's
      const taking = writer.withLock("members", a, once, never);
      await expect(taking).rejects.toMatchObject({ code: "ROW_LOCKED" });
    });
    expect(await lockOf(engine, "members", a)).toEqual({ ...FREE, owner });
  });
});

test("two that want the same rows in another order: the one waits for the other, over and over", async () => {
  const { members } = await engine.group(6);
  const add = (ids: readonly string[]) =>
    writerOn(engine).withLock("members", ids, { waitSeconds: 30 }, async (rows, held) => {
      for (const { id, busy } of rows) await held.update(id, { busy: busy + 1 });
    });
  const reversed = [...members].reverse();
  await Promise.all([add(members), add(reversed), add(members.slice(2)), add(reversed.slice(2))]);
  const busy = await engine.query<{ busy: number }>("select busy from members order by id");
  expect(busy.map((r) => r.busy)).toEqual([3, 3, 4, 4, 3, 3]);
  expect(await engine.query("select 1 from members where lock_token is not null")).toEqual([]);
}, 60_000);

test("rows are locked by id, whatever order is asked for: a later one is not touched while an earlier one is waited for", async () => {
  const [a, b] = (await engine.group(2)).members as [string, string];
  await using other = await openTransaction(engine);
  await other.query("select 1 from members where id = $1 for update", [a]);
  const locking = writerOn(engine).withLock("members", [b, a], {}, async () => "had");
  await untilBlocked(engine);
  await other.query("select 1 from members where id = $1 for update nowait", [b]);
  await other.commit();
  expect(await locking).toBe("had");
});

test("a wish for a held row is stored, and the row is due when it is given back", async () => {
  const { id } = await engine.group(0);
  const during = gate();
  const writer = writerOn(engine);
  await engine.query("update groups set due_at = null");
  const working = writer.withLock("groups", id, {}, () => during.pass());
  await during.reached;
  await writer.request("groups", id, { wanted: 4 });
  expect(await engine.row("groups", id)).toMatchObject({ wanted: 4, lock_token: expect.any(String) });
  during.open();
  await working;
  expect(await fetchRows(engine, { pipeline: "groups" })).toMatchObject({ ids: [id] });
});

test("sent twice, every step gives the first answer", async () => {
  const [a, b] = (await engine.group(2)).members as [string, string];
  await repeating().withLock("members", [a, b], {}, async (_, held) => {
    expect(await held.update(a, { note: "x" }, { insert: { logs: [{ message: "once" }] } })).toMatchObject({
      note: "x",
    });
    await held.delete(b);
  });
  expect(await lockOf(engine, "members", a)).toEqual(FREE);
  expect(await engine.query("select id from members")).toEqual([{ id: a }]);
  expect(await logs()).toEqual([{ message: "once" }]);
});
