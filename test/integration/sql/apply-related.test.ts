import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Beside } from "../../../lib/sql/apply.ts";
import { itemOf } from "../../support/endings.ts";
import { openTransaction } from "../../support/overlap.ts";
import {
  applyBeside,
  COMPLETE,
  hold,
  lockedGroup,
  lockRows,
  relatedGroup,
  requestGroup,
  takeRow,
} from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";
import { type answer, type Claimed, untilBlocked } from "../../support/steps.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const write = (pipeline: string, claimed: readonly Claimed[], changes: Parameters<typeof answer>[1], beside: Beside) =>
  applyBeside(engine, pipeline, claimed, changes, beside);

describe("an accepted answer", () => {
  test("patches the rows that it names, unlocks all, and leaves their time alone", async () => {
    const { id, members, group } = await lockedGroup(engine, 3);
    const before = await Promise.all(members.map((m) => engine.row("members", m)));
    const related = relatedGroup("members", group, members);
    const rows = related.rows.map((r, n) => (n === 1 ? { ...r, set: { note: "patched", busy: 7 } } : r));
    const [result] = await write(
      "groups",
      [group],
      { set: { name: "done" }, ...COMPLETE },
      { related: [{ table: "members", rows }] },
    );
    expect(result!.result).toBe("applied");
    for (const [n, member] of members.entries()) {
      const row = await engine.row("members", member);
      expect(row).toMatchObject({ lock_token: null, lock_owner: null, lock_expires_at: null });
      expect(row).toMatchObject({ note: n === 1 ? "patched" : null, busy: n === 1 ? 7 : 0 });
      expect(row["due_at"]).toEqual(before[n]!["due_at"]);
      expect(row["last_processed_at"]).toEqual(before[n]!["last_processed_at"]);
    }
    expect(await engine.row("groups", id)).toMatchObject({ name: "done", lock_token: null });
    expect(await itemOf(engine, id)).toMatchObject({ state: "applied", related: null, finished: true });
  });

  test("a patch that makes a related row ready makes it due, and names its pipeline to hint", async () => {
    const { members, group } = await lockedGroup(engine, 2);
    await engine.query("update members set due_at = null");
    const [result] = await write("groups", [group], COMPLETE, {
      related: [relatedGroup("members", group, [members[0]!], { set: { status: "new" } })].map((g) => ({
        ...g,
        rows: [...g.rows, ...relatedGroup("members", group, [members[1]!]).rows],
      })),
    });
    expect(JSON.parse(result!.hints)).toEqual(["members"]);
    expect((await engine.row("members", members[0]!))["due_at"]).not.toBeNull();
    expect((await engine.row("members", members[1]!))["due_at"]).toBeNull();
  });

  test("deletes related rows, and the row itself, whose children they were", async () => {
    const { id, members } = await engine.group(2, { status: "closing" });
    const group = await takeRow(engine, "groups", id);
    await lockRows(engine, "groups", [group]);
    const [result] = await write(
      "groups",
      [group],
      { delete: true, locks: ["closing.members"] },
      {
        related: [relatedGroup("members", group, members, { delete: true })],
      },
    );
    expect(result!.result).toBe("applied");
    expect(await engine.query("select 1 from members")).toEqual([]);
    expect(await engine.query("select 1 from groups")).toEqual([]);
  });

  test("everything that it writes with the instant is one instant", async () => {
    const { id, members, group } = await lockedGroup(engine, 2);
    await engine.query("alter table members add column if not exists seen_at timestamptz");
    await write("groups", [group], COMPLETE, {
      related: [relatedGroup("members", group, members, { nows: ["seen_at"] })],
    });
    const rows = await engine.query<{ same: boolean }>(
      "select m.seen_at = g.last_processed_at as same from members m join groups g on g.id = m.group_id where g.id = $1",
      [id],
    );
    expect(rows).toEqual([{ same: true }, { same: true }]);
  });

  test("a repetition hears already, with the same pipelines to hint", async () => {
    const { members, group } = await lockedGroup(engine, 1);
    await engine.query("update members set due_at = null");
    const beside = { related: [relatedGroup("members", group, members, { set: { status: "new" } })] };
    const [first] = await write("groups", [group], COMPLETE, beside);
    const [second] = await write("groups", [group], COMPLETE, beside);
    expect([first!.result, second!.result]).toEqual(["applied", "already"]);
    expect(JSON.parse(second!.hints)).toEqual(JSON.parse(first!.hints));
  });

  test("names the pipelines whose due rows had made way for it", async () => {
    const { id, members } = await engine.group(1);
    const group = await takeRow(engine, "groups", id);
    await engine.query("update members set due_at = now() - interval '1 s' where id = $1", [members[0]]);
    const [result] = await write("groups", [group], {}, {});
    expect(JSON.parse(result!.hints)).toEqual(["members"]);
  });
});

describe("requests of other rows", () => {
  test("store the intent, held or not, and make the row due at once", async () => {
    const { id } = await engine.group(0);
    await hold(engine, "groups", id, { owner: "groups" });
    await engine.query("update groups set due_at = null");
    const task = await takeRow(engine, "tasks", await engine.insert("tasks", { status: "running" }));
    const [result] = await write(
      "tasks",
      [task],
      {},
      { requests: [requestGroup("groups", task, [id], { wanted: 3 })] },
    );
    expect(result!.result).toBe("applied");
    expect(JSON.parse(result!.hints)).toEqual(["groups"]);
    const row = await engine.row("groups", id);
    expect(row).toMatchObject({ wanted: 3, lock_owner: "groups" });
    expect(row["due_at"]).not.toBeNull();
  });

  test("of the same table, above and below the row itself", async () => {
    const ids = (
      await Promise.all(Array.from({ length: 3 }, () => engine.insert("tasks", { status: "running" })))
    ).sort();
    const task = await takeRow(engine, "tasks", ids[1]!);
    const [result] = await write(
      "tasks",
      [task],
      {},
      { requests: [requestGroup("tasks", task, [ids[0]!, ids[2]!], { stop: true })] },
    );
    expect(result!.result).toBe("applied");
    const rows = await engine.query<{ id: string; stop: boolean; due: boolean }>(
      "select id, stop, due_at <= now() as due from tasks order by id",
    );
    expect(rows).toMatchObject([{ stop: true, due: true }, { stop: false }, { stop: true, due: true }]);
  });

  test("of a stale answer are not stored", async () => {
    const { id } = await engine.group(0);
    const task = await takeRow(engine, "tasks", await engine.insert("tasks", { status: "running" }));
    await engine.query("update tasks set lock_token = null");
    await write("tasks", [task], {}, { requests: [requestGroup("groups", task, [id], { wanted: 3 })] });
    expect(await engine.row("groups", id)).toMatchObject({ wanted: null });
  });
});

test("a transaction that has inserted a child and then updates the parent does not deadlock with its deletion", async () => {
  const { id } = await engine.group(0, { status: "closing" });
  const group = await takeRow(engine, "groups", id);
  await lockRows(engine, "groups", [group]);
  await using open = await openTransaction(engine);
  await open.query("insert into members (group_id) values ($1)", [id]);
  const writing = write("groups", [group], { delete: true, locks: ["closing.members"] }, {});
  await untilBlocked(engine);
  await open.query("update groups set wanted = 1 where id = $1", [id]);
  await open.commit();
  await expect(writing).rejects.toMatchObject({ details: { sqlState: "23503" } });
  expect(await engine.row("groups", id)).toMatchObject({ wanted: 1 });
});
