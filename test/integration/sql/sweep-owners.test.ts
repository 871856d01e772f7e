import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { endRows, itemOf } from "../../support/endings.ts";
import { openTransaction, stopReads } from "../../support/overlap.ts";
import {
  FREE,
  hold,
  lockedTask,
  lockOf,
  lockRows,
  NOTHING,
  sweepTables,
  takeRow,
} from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";
import { type Claimed, untilBlocked } from "../../support/steps.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const sweep = (scan = false) => sweepTables(engine, scan);
const member = (id: string) => lockOf(engine, "members", id);
const reset = (pipeline: string, claimed: Claimed) => endRows(engine, "reset", [claimed], { pipeline, keep: true });

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
    const { id, member: shared } = await lockedTask(engine);
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
    expect(await itemOf(engine, id)).toMatchObject({ resets: 1 });
  });

  test.each([
    ["left its states", "status = 'over'"],
    ["is never due", "due_at = null"],
  ])("are freed by the next sweep, without a scan, where the row %s", async (_, change) => {
    const id = await waiting();
    await engine.query(`update groups set ${change}`);
    expect(await sweep()).toMatchObject({ unlocked: { groups: 1 } });
    expect(await lockOf(engine, "groups", id)).toEqual(FREE);
    expect(await itemOf(engine, id)).toMatchObject({ state: "retried", finished: true });
  });

  test("are forgotten some time after nobody keeps them any more", async () => {
    const [kept, left, fresh] = [await waiting(), await waiting(), await waiting()];
    await engine.query("update groups set lock_owner = null where id in ($1, $2)", [left, fresh]);
    await engine.query("update millrace.items set finished_at = now() - interval '11 min' where item_id in ($1, $2)", [
      kept,
      left,
    ]);
    await sweep();
    expect(await itemOf(engine, kept)).toMatchObject({ resets: 1 });
    expect(await itemOf(engine, left)).toMatchObject({ resets: 0, state: "retried", finished: true });
    expect(await itemOf(engine, fresh)).toMatchObject({ resets: 1 });
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
