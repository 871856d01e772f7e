import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { resetSql } from "../../../lib/sql/end.ts";
import { scopeOf } from "../../../lib/sql/parts.ts";
import { type SweepRow, sweepSql } from "../../../lib/sql/sweep.ts";
import { openTransaction, stopReads } from "../../support/overlap.ts";
import { FREE, hold, lockOf, lockRows, takeRow } from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";
import { type Claimed, untilBlocked } from "../../support/steps.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

interface Swept {
  readonly unlocked: Readonly<Record<string, number>>;
  readonly ended: number;
  readonly left: number;
}

/** One sweep: rows unlocked by table, where there were any. */
async function sweep(scan = false): Promise<Swept> {
  const rows: readonly SweepRow[] = await engine.run(sweepSql(engine.registry, scan));
  const unlocked = rows.filter((r) => r.unlocked > 0).map((r) => [r.table, r.unlocked] as const);
  return { unlocked: Object.fromEntries(unlocked), ended: rows[0]!.ended, left: rows[0]!.left };
}
const NOTHING = { unlocked: {}, ended: 0, left: 0 };

async function item(id: string) {
  const [row] = await engine.query(
    "select state, finished_at is not null as finished, related, resets from millrace.items where item_id = $1",
    [id],
  );
  return row;
}

/** A task in process with the member that it shares. */
async function heldTask() {
  const { id: group, members } = await engine.group(1);
  const id = await engine.insert("tasks", { member_id: members[0]!, status: "ending" });
  const claimed = await takeRow(engine, "endings", id);
  const [answer] = await lockRows(engine, "endings", [claimed]);
  expect(answer!.result).toBe("locked");
  return { id, group, member: members[0]!, claimed };
}
/** A group in process with two members. */
async function heldGroup() {
  const group = await engine.group(2);
  const claimed = await takeRow(engine, "groups", group.id);
  const [answer] = await lockRows(engine, "groups", [claimed]);
  expect(answer!.result).toBe("locked");
  return { ...group, claimed };
}
const reset = (pipeline: string, { id, token, seen }: Claimed) =>
  engine.run(
    resetSql(scopeOf(engine.registry, engine.registry.get(pipeline)), [
      { id, token, seen, reason: "contention", keep: true },
    ]),
  );
const member = (id: string) => lockOf(engine, "members", id);

describe("dead related locks", () => {
  test("of a pass that is under way are not dead", async () => {
    const task = await heldTask();
    const group = await heldGroup();
    expect(await sweep()).toEqual(NOTHING);
    expect(await sweep(true)).toEqual(NOTHING);
    // late, but their main rows carry the tokens
    await engine.query("update members set lock_expires_at = now() - interval '5 min'");
    expect(await sweep(true)).toEqual(NOTHING);
    expect(await member(task.member)).toMatchObject({ token: task.claimed.token });
    expect(await member(group.members[0]!)).toMatchObject({ token: group.claimed.token });
  });

  test.each([
    ["carries another token", "update tasks set lock_token = gen_random_uuid()"],
    ["carries none", "update tasks set lock_token = null, lock_owner = null, lock_expires_at = null"],
    ["is gone", "delete from tasks"],
  ])("are freed while they are live, and their item ends in the same run: the main row %s", async (_, change) => {
    const { id, member: shared } = await heldTask();
    await engine.past(change);
    expect(await sweep()).toEqual({ unlocked: { members: 1 }, ended: 1, left: 0 });
    expect(await member(shared)).toEqual(FREE);
    expect(await item(id)).toMatchObject({ state: "lost", finished: true, related: null });
    expect(await sweep()).toEqual(NOTHING);
  });

  test("of children are freed as well", async () => {
    const { id, members } = await heldGroup();
    await engine.query("update groups set lock_token = gen_random_uuid()");
    expect(await sweep()).toEqual({ unlocked: { members: 2 }, ended: 1, left: 0 });
    for (const child of members) expect(await member(child)).toEqual(FREE);
    expect(await item(id)).toMatchObject({ related: null });
  });

  test("of an item that an unlock has ended, but not finished", async () => {
    const { id, member: shared } = await heldTask();
    await engine.query("update tasks set lock_token = null, lock_owner = null, lock_expires_at = null");
    await engine.query("update millrace.items set state = 'lost', lock_token = null, alive_until = null");
    expect(await sweep()).toEqual({ unlocked: { members: 1 }, ended: 1, left: 0 });
    expect(await member(shared)).toEqual(FREE);
    expect(await item(id)).toMatchObject({ state: "lost", finished: true, related: null });
  });

  test("of a new attempt's predecessor are freed, and the attempt goes on", async () => {
    const { id, member: shared, claimed } = await heldTask();
    await engine.query("update tasks set lock_expires_at = now() - interval '1 s'");
    const again = await takeRow(engine, "endings", id);
    expect(again.token).not.toBe(claimed.token);
    expect(await sweep()).toEqual({ unlocked: { members: 1 }, ended: 0, left: 0 });
    expect(await member(shared)).toEqual(FREE);
    expect(await item(id)).toMatchObject({ state: "processing", finished: false });
  });

  test("that no item knows of are left to a scan", async () => {
    const { members } = await engine.group(1);
    await hold(engine, "members", members[0]!, { owner: `endings:${crypto.randomUUID()}`, seconds: 600 });
    expect(await sweep()).toEqual(NOTHING);
    expect(await sweep(true)).toEqual({ unlocked: { members: 1 }, ended: 0, left: 0 });
  });

  test("that somebody has locked: their item waits for them, and is no longer alive", async () => {
    const { id, member: shared } = await heldTask();
    await engine.query("update tasks set lock_token = gen_random_uuid()");
    await using other = await openTransaction(engine);
    await other.query("select 1 from members where id = $1 for no key update", [shared]);
    expect(await sweep()).toEqual({ unlocked: {}, ended: 0, left: 1 });
    expect(await item(id)).toMatchObject({ state: "lost", finished: false, related: { members: [shared] } });
    await other.commit();
    expect(await sweep()).toEqual({ unlocked: { members: 1 }, ended: 1, left: 0 });
    expect(await item(id)).toMatchObject({ finished: true, related: null });
  });

  test("that somebody else has taken over: their item ends without them", async () => {
    const { id, member: shared } = await heldTask();
    await engine.query("update tasks set lock_token = gen_random_uuid()");
    await hold(engine, "members", shared, { owner: null });
    expect(await sweep()).toEqual({ unlocked: {}, ended: 1, left: 0 });
    expect(await item(id)).toMatchObject({ state: "lost", finished: true, related: null });
    expect(await member(shared)).toMatchObject({ owner: null, live: true });
  });

  test("of a row that this very sweep unlocks are freed by the next, which finds them", async () => {
    const { id, member: shared } = await heldTask();
    await engine.past("update tasks set status = 'done'");
    await engine.query("update tasks set lock_expires_at = now() - interval '5 min'");
    expect(await sweep()).toEqual({ unlocked: { tasks: 1 }, ended: 0, left: 1 });
    expect(await item(id)).toMatchObject({ state: "lost", finished: false });
    expect(await sweep()).toEqual({ unlocked: { members: 1 }, ended: 1, left: 0 });
    expect(await member(shared)).toEqual(FREE);
  });

  test.each([false, true])("a lock that was taken again since the snapshot is not freed (scan: %s)", async (scan) => {
    const { id, member: shared } = await heldTask();
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

describe("owners", () => {
  test.each([
    ["no pipeline", "ghosts"],
    ["no pipeline, with an id", `ghosts:${crypto.randomUUID()}`],
    ["a pipeline that locks no such rows", "tend"],
    ["a pipeline of this table, with an id", `members:${crypto.randomUUID()}`],
    ["a pipeline that shares such rows, without an id", "endings"],
  ])("a row without a live lock whose owner is %s is freed", async (_, owner) => {
    const { members } = await engine.group(1);
    await hold(engine, "members", members[0]!, { owner, token: null, seconds: null });
    expect(await sweep(true)).toMatchObject({ unlocked: { members: 1 } });
    expect(await member(members[0]!)).toEqual(FREE);
  });

  test("a shared row that is owned without a token waits for nobody", async () => {
    const { id, member: shared } = await heldTask();
    await hold(engine, "members", shared, { owner: `endings:${id}`, token: null, seconds: null });
    expect(await sweep()).toMatchObject({ unlocked: { members: 1 } });
  });

  test("a live lock of nobody's is left alone", async () => {
    const { members } = await engine.group(1);
    await hold(engine, "members", members[0]!, { owner: null });
    expect(await sweep(true)).toEqual(NOTHING);
  });
});

describe("rows that wait after a reset", () => {
  async function waiting() {
    const { id } = await engine.group(0);
    const claimed = await takeRow(engine, "groups", id);
    await reset("groups", claimed);
    expect(await lockOf(engine, "groups", id)).toMatchObject({ owner: "groups", token: null });
    return id;
  }

  test("are left to their owner", async () => {
    const id = await waiting();
    expect(await sweep()).toEqual(NOTHING);
    expect(await lockOf(engine, "groups", id)).toMatchObject({ owner: "groups" });
    expect(await item(id)).toMatchObject({ resets: 1 });
  });

  test.each([
    ["left its states", "status = 'over'"],
    ["is never due", "due_at = null"],
  ])("are freed by the next sweep, without a scan, where the row %s", async (_, change) => {
    const id = await waiting();
    await engine.query(`update groups set ${change}`);
    expect(await sweep()).toMatchObject({ unlocked: { groups: 1 } });
    expect(await lockOf(engine, "groups", id)).toEqual(FREE);
    expect(await item(id)).toMatchObject({ state: "retried", finished: true });
  });

  test("are forgotten some time after nobody keeps them any more", async () => {
    const [kept, left, fresh] = [await waiting(), await waiting(), await waiting()];
    await engine.query("update groups set lock_owner = null where id in ($1, $2)", [left, fresh]);
    await engine.query("update millrace.items set finished_at = now() - interval '11 min' where item_id in ($1, $2)", [
      kept,
      left,
    ]);
    await sweep();
    expect(await item(kept)).toMatchObject({ resets: 1 });
    expect(await item(left)).toMatchObject({ resets: 0, state: "retried", finished: true });
    expect(await item(fresh)).toMatchObject({ resets: 1 });
  });
});

describe("reserved children", () => {
  /** A closing group that got one of its two members, reserved it, and waits. */
  async function reserved() {
    const { id, members } = await engine.group(2, { status: "closing" });
    await hold(engine, "members", members[1]!);
    const claimed = await takeRow(engine, "groups", id);
    const [answer] = await lockRows(engine, "groups", [claimed]);
    expect(answer!.result).toBe("contention");
    await reset("groups", claimed);
    expect(await member(members[0]!)).toMatchObject({ owner: "groups", token: null });
    return { id, child: members[0]! };
  }

  test("are kept while the parent waits", async () => {
    const { child } = await reserved();
    expect(await sweep()).toEqual(NOTHING);
    expect(await sweep(true)).toEqual(NOTHING);
    expect(await member(child)).toMatchObject({ owner: "groups" });
  });

  test.each([false, true])("are freed when it waits no longer (scan: %s)", async (scan) => {
    const { child } = await reserved();
    await engine.query("update groups set lock_owner = null");
    expect(await sweep(scan)).toMatchObject({ unlocked: { members: 1 } });
    expect(await member(child)).toEqual(FREE);
  });

  test("are not freed when the parent has locked them since the snapshot", async () => {
    const { id, child } = await reserved();
    await engine.query("update groups set lock_owner = null");
    await using reads = await stopReads(engine, "millrace.items");
    const sweeping = sweep();
    await untilBlocked(engine);
    const token = crypto.randomUUID();
    await using other = await openTransaction(engine);
    for (const [name, row] of [
      ["groups", id],
      ["members", child],
    ])
      await other.query(
        `update ${name} set lock_token = $2, lock_owner = 'groups', lock_expires_at = now() + interval '30 s' where id = $1`,
        [row, token],
      );
    await other.commit();
    await reads.goOn();
    expect((await sweeping).unlocked).toEqual({});
    expect(await member(child)).toMatchObject({ token, owner: "groups" });
  });
});
