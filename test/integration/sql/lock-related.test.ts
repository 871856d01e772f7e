import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openTransaction, stopReads } from "../../support/overlap.ts";
import { FREE, hold, lockOf, lockRows, takeRow } from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";
import { untilBlocked } from "../../support/steps.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

/** Somebody else claims the groups. */
const STEAL = [
  "update groups set lock_token = '00000000-0000-4000-8000-00000000000a'",
  "update millrace.items set lock_token = '00000000-0000-4000-8000-00000000000a'",
];
const steal = async () => {
  for (const statement of STEAL) await engine.query(statement);
};

const related = async (id: string) =>
  (await engine.query<{ related: unknown }>("select related from millrace.items where item_id = $1", [id]))[0]?.related;

describe("children", () => {
  test("all of them are locked under the main row's token, and stand on the item's list", async () => {
    const { id, members } = await engine.group(3);
    const group = await takeRow(engine, "groups", id);
    const [answer] = await lockRows(engine, "groups", [group]);
    expect(answer).toMatchObject({ result: "locked", related: { members }, missing: {} });
    for (const member of members)
      expect(await lockOf(engine, "members", member)).toEqual({
        token: group.token,
        owner: "groups",
        live: true,
        held: true,
      });
    expect(await related(id)).toEqual({ members });
  });

  test("only those that the state wants", async () => {
    const { id, members } = await engine.group(2);
    await engine.query("update members set status = 'gone' where id = $1", [members[0]]);
    const [answer] = await lockRows(engine, "groups", [await takeRow(engine, "groups", id)]);
    expect(answer!.related).toEqual({ members: [members[1]] });
    expect(await lockOf(engine, "members", members[0]!)).toEqual(FREE);
  });

  test("none: the pass goes on all the same", async () => {
    const { id } = await engine.group(0);
    const [answer] = await lockRows(engine, "groups", [await takeRow(engine, "groups", id)]);
    expect(answer).toMatchObject({ result: "locked", related: {}, missing: {} });
    expect(await related(id)).toBeNull();
  });

  test("the main row is answered as it is under the locks, with its due_at to the microsecond", async () => {
    const { id } = await engine.group(1);
    const group = await takeRow(engine, "groups", id);
    await engine.past("update groups set name = 'renamed', due_at = '2020-01-01 00:00:00.123456+00' where id = $1", [
      id,
    ]);
    const [answer] = await lockRows(engine, "groups", [group]);
    expect(answer!.row).toMatchObject({ id, name: "renamed" });
    expect(answer!.row["millrace_seen_due"]).toContain("00:00:00.123456");
  });

  const held: readonly [string, { readonly owner?: string }][] = [
    ["held by its own pipeline", { owner: "members" }],
    ["held by a task", { owner: "tasks:00000000-0000-4000-8000-000000000001" }],
    ["held by an API", {}],
  ];
  test.each(held)("one that is %s is contention: none is locked", async (_, lock) => {
    const { id, members } = await engine.group(3);
    await hold(engine, "members", members[1]!, lock);
    if (lock.owner?.startsWith("tasks")) {
      // its main row still carries the token: the lock is alive
      const { token } = await lockOf(engine, "members", members[1]!);
      await engine.insert("tasks", { id: lock.owner.slice(6), lock_token: token, status: "done" });
    }
    const before = await lockOf(engine, "members", members[1]!);
    const [answer] = await lockRows(engine, "groups", [await takeRow(engine, "groups", id)]);
    expect(answer).toMatchObject({ result: "contention", related: {}, missing: { members: [members[1]] } });
    expect(await lockOf(engine, "members", members[1]!)).toEqual(before);
    expect(await lockOf(engine, "members", members[0]!)).toEqual(FREE);
    expect(await related(id)).toBeNull();
  });

  test.each([
    ["owned by its pipeline after a reset", { owner: "members", token: null, seconds: null }],
    ["expired under its own pipeline", { owner: "members", seconds: -1 }],
    ["expired under a task", { owner: "tasks:00000000-0000-4000-8000-000000000002", seconds: -1 }],
    ["expired under an API", { seconds: -1 }],
  ])("a parent takes one that is %s: it makes way", async (_, lock) => {
    const { id, members } = await engine.group(2);
    await hold(engine, "members", members[0]!, lock);
    const group = await takeRow(engine, "groups", id);
    expect((await lockRows(engine, "groups", [group]))[0]!.result).toBe("locked");
    expect(await lockOf(engine, "members", members[0]!)).toMatchObject({ token: group.token, owner: "groups" });
  });

  test("a live lock whose main row is gone, or carries another token, is dead and taken", async () => {
    const { id, members } = await engine.group(2);
    const task = await engine.insert("tasks", { status: "done", lock_token: crypto.randomUUID() });
    await hold(engine, "members", members[0]!, { owner: `tasks:${task}` });
    await hold(engine, "members", members[1]!, { owner: `endings:${crypto.randomUUID()}` });
    const [answer] = await lockRows(engine, "groups", [await takeRow(engine, "groups", id)]);
    expect(answer!.result).toBe("locked");
  });

  test("with reserve the free ones get the owner at contention, and nothing else", async () => {
    const { id, members } = await engine.group(2, { status: "closing" });
    await hold(engine, "members", members[0]!, {});
    const [answer] = await lockRows(engine, "groups", [await takeRow(engine, "groups", id)]);
    expect(answer!.result).toBe("contention");
    expect(await lockOf(engine, "members", members[1]!)).toEqual({ ...FREE, owner: "groups" });
  });

  test("a repetition answers the same", async () => {
    const { id, members } = await engine.group(2);
    const group = await takeRow(engine, "groups", id);
    await lockRows(engine, "groups", [group]);
    const [answer] = await lockRows(engine, "groups", [group]);
    expect(answer).toMatchObject({ result: "locked", related: { members } });
    expect(await related(id)).toEqual({ members });
  });

  test("a row that was lost is stale: nothing is locked", async () => {
    const { id, members } = await engine.group(1);
    const group = await takeRow(engine, "groups", id);
    await steal();
    expect((await lockRows(engine, "groups", [group]))[0]!.result).toBe("stale");
    expect(await lockOf(engine, "members", members[0]!)).toEqual(FREE);
  });

  test("a row that changed its state is moved: nothing is locked", async () => {
    const { id, members } = await engine.group(1);
    const group = await takeRow(engine, "groups", id);
    await engine.past("update groups set status = 'closing' where id = $1", [id]);
    expect((await lockRows(engine, "groups", [group]))[0]).toMatchObject({ result: "moved", related: {} });
    expect(await lockOf(engine, "members", members[0]!)).toEqual(FREE);
  });

  test("never waits: a child that a transaction has locked is contention", async () => {
    const { id, members } = await engine.group(2);
    const group = await takeRow(engine, "groups", id);
    await using open = await openTransaction(engine);
    await open.query("select 1 from members where id = $1 for update", [members[0]]);
    expect((await lockRows(engine, "groups", [group]))[0]).toMatchObject({
      result: "contention",
      missing: { members: [members[0]] },
    });
  });

  test("a thief of the main row that has not committed makes it stale, and no child is locked", async () => {
    const { id, members } = await engine.group(1);
    const group = await takeRow(engine, "groups", id);
    await using thief = await openTransaction(engine);
    for (const statement of STEAL) await thief.query(statement);
    const locking = lockRows(engine, "groups", [group]);
    await untilBlocked(engine);
    await thief.commit();
    expect((await locking)[0]!.result).toBe("stale");
    expect(await lockOf(engine, "members", members[0]!)).toEqual(FREE);
  });

  test("an item that somebody ends at this moment has lost the row: stale, and no child is locked", async () => {
    const { id, members } = await engine.group(1);
    const group = await takeRow(engine, "groups", id);
    await using sweeper = await openTransaction(engine);
    await sweeper.query("update millrace.items set state = 'lost', lock_token = null, finished_at = now()");
    const locking = lockRows(engine, "groups", [group]);
    await untilBlocked(engine);
    await sweeper.commit();
    expect((await locking)[0]!.result).toBe("stale");
    expect(await lockOf(engine, "members", members[0]!)).toEqual(FREE);
  });

  test.each([
    ["becomes another parent's", "group_id = $2"],
    ["is not wanted any more", "status = case when $2::uuid is null then 'idle' else 'gone' end"],
  ])("a child that %s while the statement waits for the main row is not locked", async (_, set) => {
    const { id, members } = await engine.group(1);
    const { id: other } = await engine.group(0);
    const group = await takeRow(engine, "groups", id);
    await using open = await openTransaction(engine);
    await open.query("select 1 from groups where id = $1 for update", [id]);
    await open.query(`update members set ${set} where id = $1`, [members[0], other]);
    const locking = lockRows(engine, "groups", [group]);
    await untilBlocked(engine);
    await open.commit();
    expect((await locking)[0]).toMatchObject({ result: "contention", missing: { members } });
    expect(await lockOf(engine, "members", members[0]!)).toEqual(FREE);
  });

  test("a dead lock that was taken anew meanwhile is held, not dead", async () => {
    const { id, members } = await engine.group(1);
    const task = await engine.insert("tasks", { status: "ending", member_id: members[0] });
    await hold(engine, "members", members[0]!, { owner: `endings:${task}` });
    const group = await takeRow(engine, "groups", id);
    // the group's statement has its snapshot, in which the lock is dead, and has not locked anything
    await using stop = await stopReads(engine, "members");
    const locking = lockRows(engine, "groups", [group]);
    await untilBlocked(engine);
    const token = crypto.randomUUID();
    await engine.query("update tasks set lock_token = $1, lock_expires_at = now() + interval '30 s' where id = $2", [
      token,
      task,
    ]);
    await hold(engine, "members", members[0]!, { owner: `endings:${task}`, token });
    await stop.goOn();
    expect((await locking)[0]!.result).toBe("contention");
    expect(await lockOf(engine, "members", members[0]!)).toMatchObject({ token });
  });

  test("two groups of a batch get their own", async () => {
    const [a, b] = [await engine.group(2), await engine.group(1)];
    const taken = [await takeRow(engine, "groups", a.id), await takeRow(engine, "groups", b.id)];
    const answers = await lockRows(engine, "groups", taken);
    expect(answers.map((x) => x.related)).toEqual([{ members: a.members }, { members: b.members }]);
  });
});
