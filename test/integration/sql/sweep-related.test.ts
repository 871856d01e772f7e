import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { itemOf } from "../../support/endings.ts";
import { openTransaction, stopReads } from "../../support/overlap.ts";
import {
  FREE,
  hold,
  lockedGroup,
  lockedTask,
  lockOf,
  NOTHING,
  sweepTables,
  takeRow,
} from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";
import { untilBlocked } from "../../support/steps.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const sweep = (scan = false) => sweepTables(engine, scan);
const member = (id: string) => lockOf(engine, "members", id);

describe("dead related locks", () => {
  test("of a pass that is under way are not dead", async () => {
    const task = await lockedTask(engine);
    const { members, group } = await lockedGroup(engine, 2);
    expect(await sweep()).toEqual(NOTHING);
    expect(await sweep(true)).toEqual(NOTHING);
    // late, but their main rows carry the tokens
    await engine.query("update members set lock_expires_at = now() - interval '5 min'");
    expect(await sweep(true)).toEqual(NOTHING);
    expect(await member(task.member)).toMatchObject({ token: task.claimed.token });
    expect(await member(members[0]!)).toMatchObject({ token: group.token });
  });

  test.each([
    ["carries another token", "update tasks set lock_token = gen_random_uuid()"],
    ["carries none", "update tasks set lock_token = null, lock_owner = null, lock_expires_at = null"],
    ["is gone", "delete from tasks"],
  ])("are freed while they are live, and their item ends in the same run: the main row %s", async (_, change) => {
    const { id, member: shared } = await lockedTask(engine);
    await engine.past(change);
    expect(await sweep()).toEqual({ unlocked: { members: 1 }, ended: 1, left: 0 });
    expect(await member(shared)).toEqual(FREE);
    expect(await itemOf(engine, id)).toMatchObject({ state: "lost", finished: true, related: null });
    expect(await sweep()).toEqual(NOTHING);
  });

  test("of children are freed as well", async () => {
    const { id, members } = await lockedGroup(engine, 2);
    await engine.query("update groups set lock_token = gen_random_uuid()");
    expect(await sweep()).toEqual({ unlocked: { members: 2 }, ended: 1, left: 0 });
    for (const child of members) expect(await member(child)).toEqual(FREE);
    expect(await itemOf(engine, id)).toMatchObject({ related: null });
  });

  test("of an item that an unlock has ended, but not finished", async () => {
    const { id, member: shared } = await lockedTask(engine);
    await engine.query("update tasks set lock_token = null, lock_owner = null, lock_expires_at = null");
    await engine.query("update millrace.items set state = 'lost', lock_token = null, alive_until = null");
    expect(await sweep()).toEqual({ unlocked: { members: 1 }, ended: 1, left: 0 });
    expect(await member(shared)).toEqual(FREE);
    expect(await itemOf(engine, id)).toMatchObject({ state: "lost", finished: true, related: null });
  });

  test("of a new attempt's predecessor are freed, and the attempt goes on", async () => {
    const { id, member: shared, claimed } = await lockedTask(engine);
    await engine.query("update tasks set lock_expires_at = now() - interval '1 s'");
    const again = await takeRow(engine, "endings", id);
    expect(again.token).not.toBe(claimed.token);
    expect(await sweep()).toEqual({ unlocked: { members: 1 }, ended: 0, left: 0 });
    expect(await member(shared)).toEqual(FREE);
    expect(await itemOf(engine, id)).toMatchObject({ state: "processing", finished: false });
  });

  test("that no item knows of are left to a scan", async () => {
    const { members } = await engine.group(1);
    await hold(engine, "members", members[0]!, { owner: `endings:${crypto.randomUUID()}`, seconds: 600 });
    expect(await sweep()).toEqual(NOTHING);
    expect(await sweep(true)).toEqual({ unlocked: { members: 1 }, ended: 0, left: 0 });
  });

  test("that somebody has locked: their item waits for them, and is no longer alive", async () => {
    const { id, member: shared } = await lockedTask(engine);
    await engine.query("update tasks set lock_token = gen_random_uuid()");
    await using other = await openTransaction(engine);
    await other.query("select 1 from members where id = $1 for no key update", [shared]);
    expect(await sweep()).toEqual({ unlocked: {}, ended: 0, left: 1 });
    expect(await itemOf(engine, id)).toMatchObject({ state: "lost", finished: false, related: { members: [shared] } });
    await other.commit();
    expect(await sweep()).toEqual({ unlocked: { members: 1 }, ended: 1, left: 0 });
    expect(await itemOf(engine, id)).toMatchObject({ finished: true, related: null });
  });

  test("that somebody else has taken over: their item ends without them", async () => {
    const { id, member: shared } = await lockedTask(engine);
    await engine.query("update tasks set lock_token = gen_random_uuid()");
    await hold(engine, "members", shared, { owner: null });
    expect(await sweep()).toEqual({ unlocked: {}, ended: 1, left: 0 });
    expect(await itemOf(engine, id)).toMatchObject({ state: "lost", finished: true, related: null });
    expect(await member(shared)).toMatchObject({ owner: null, live: true });
  });

  test("of a row that this very sweep unlocks are freed by the next, which finds them", async () => {
    const { id, member: shared } = await lockedTask(engine);
    await engine.past("update tasks set status = 'done'");
    await engine.query("update tasks set lock_expires_at = now() - interval '5 min'");
    expect(await sweep()).toEqual({ unlocked: { tasks: 1 }, ended: 0, left: 1 });
    expect(await itemOf(engine, id)).toMatchObject({ state: "lost", finished: false });
    expect(await sweep()).toEqual({ unlocked: { members: 1 }, ended: 1, left: 0 });
    expect(await member(shared)).toEqual(FREE);
  });

  test.each([false, true])("a lock that was taken again since the snapshot is not freed (scan: %s)", async (scan) => {
    const { id, member: shared } = await lockedTask(engine);
    const token = crypto.randomUUID();
    await engine.query("update tasks set lock_token = $1", [token]);
    // the sweep has its snapshot, and no lock yet
    await using reads = await stopReads(engine, "members");
    const sweeping = sweep(scan);
    await untilBlocked(engine);
    // the next attempt, which holds the main row already, takes the dead lock
    await using other = await openTransaction(engine);
    await other.query("update members set lock_token = $2, lock_owner = 'endings:' || $3 where id = $1", [
      shared,
      token,
      id,
    ]);
    await other.commit();
    await reads.goOn();
    expect((await sweeping).unlocked).toEqual({});
    expect(await member(shared)).toMatchObject({ token });
  });
});
