import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Beside } from "../../../lib/sql/apply.ts";
import { endRows } from "../../support/endings.ts";
import { openTransaction } from "../../support/overlap.ts";
import {
  applyBeside,
  FREE,
  hold,
  lockOf,
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

const COMPLETE = { locks: ["active.members"] };

const write = (pipeline: string, claimed: readonly Claimed[], changes: Parameters<typeof answer>[1], beside: Beside) =>
  applyBeside(engine, pipeline, claimed, changes, beside);

/** A group whose pass holds all of its members. */
async function lockedGroup(size: number) {
  const { id, members } = await engine.group(size);
  const group = await takeRow(engine, "groups", id);
  await lockRows(engine, "groups", [group]);
  return { id, members, group };
}

const item = async (id: string) =>
  (
    await engine.query(
      `select state, attempts, resets, related, finished_at is not null as finished, last_error from millrace.items where item_id = $1`,
      [id],
    )
  )[0];

describe("an accepted answer", () => {
  test("patches the rows that it names, unlocks all, and leaves their time alone", async () => {
    const { id, members, group } = await lockedGroup(3);
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
    expect(await item(id)).toMatchObject({ state: "applied", related: null, finished: true });
  });

  test("a patch that makes a related row ready makes it due, and names its pipeline to hint", async () => {
    const { members, group } = await lockedGroup(2);
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
    const { id, members, group } = await lockedGroup(2);
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
    const { members, group } = await lockedGroup(1);
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

describe("contention at the end", () => {
  const cases: readonly [string, (members: readonly string[], id: string) => Promise<unknown>][] = [
    ["a related row was taken over", (m) => hold(engine, "members", m[0]!, { owner: null })],
    [
      "a related row was freed by force",
      (m) =>
        engine.query("update members set lock_token = null, lock_owner = null, lock_expires_at = null where id = $1", [
          m[0],
        ]),
    ],
    [
      "a related row carries another token under the same owner",
      (m) => hold(engine, "members", m[0]!, { owner: "groups" }),
    ],
    ["a related row is gone", (m) => engine.past("delete from members where id = $1", [m[0]])],
    ["a child has come that the pass has not seen", (_, id) => engine.insert("members", { group_id: id })],
  ];
  test.each(cases)("%s: nothing is written, the row comes again with its owner kept", async (_, disturb) => {
    const { id, members, group } = await lockedGroup(2);
    await disturb(members, id);
    const [result] = await write(
      "groups",
      [group],
      { set: { name: "lost" }, ...COMPLETE },
      {
        related: [relatedGroup("members", group, members, { set: { note: "lost" } })],
        inserts: [
          {
            table: "logs",
            columns: ["message"],
            rows: [{ item: id, token: group.token, row: { message: "lost" }, nows: [] }],
          },
        ],
      },
    );
    expect(result!.result).toBe("contention");
    expect(await engine.row("groups", id)).toMatchObject({
      name: "g",
      lock_token: null,
      lock_expires_at: null,
      lock_owner: "groups",
    });
    expect(await engine.row("members", members[1]!)).toMatchObject({ note: null, lock_token: null, lock_owner: null });
    expect(await engine.query("select 1 from logs")).toEqual([]);
    expect(await item(id)).toMatchObject({ state: "retried", attempts: 0, resets: 1, related: null, finished: true });
    const [{ soon }] = (await engine.query<{ soon: boolean }>(
      "select due_at > now() and due_at < now() + interval '1 s' as soon from groups where id = $1",
      [id],
    )) as [{ soon: boolean }];
    expect(soon).toBe(true);
    // nothing was written, so a repetition does not hear `already`
    expect(
      (await write("groups", [group], COMPLETE, { related: [relatedGroup("members", group, members)] }))[0]!.result,
    ).toBe("stale");
  });

  test("a child that the state does not want does not matter", async () => {
    const { id, members, group } = await lockedGroup(1);
    await engine.insert("members", { group_id: id, status: "gone" });
    expect(
      (await write("groups", [group], COMPLETE, { related: [relatedGroup("members", group, members)] }))[0]!.result,
    ).toBe("applied");
  });

  test("a thief of a related row that has not committed: the answer waits, and is contention", async () => {
    const { members, group } = await lockedGroup(1);
    await using thief = await openTransaction(engine);
    await thief.query("update members set lock_token = gen_random_uuid(), lock_owner = null where id = $1", [
      members[0],
    ]);
    const writing = write(
      "groups",
      [group],
      { set: { name: "lost" }, ...COMPLETE },
      { related: [relatedGroup("members", group, members)] },
    );
    await untilBlocked(engine);
    await thief.commit();
    expect((await writing)[0]!.result).toBe("contention");
  });

  test("of one item does not stop its batch-mates", async () => {
    const [a, b] = [await lockedGroup(1), await lockedGroup(1)];
    await hold(engine, "members", a.members[0]!);
    const rows = [
      ...relatedGroup("members", a.group, a.members).rows,
      ...relatedGroup("members", b.group, b.members).rows,
    ];
    const results = await write("groups", [a.group, b.group], COMPLETE, { related: [{ table: "members", rows }] });
    expect(results.find((r) => r.id === a.id)!.result).toBe("contention");
    expect(results.find((r) => r.id === b.id)!.result).toBe("applied");
  });
});

describe("a stale answer", () => {
  test("frees the related rows that still carry its token, and changes nothing else", async () => {
    const { id, members, group } = await lockedGroup(2);
    await engine.query("update groups set lock_token = gen_random_uuid() where id = $1", [id]);
    await hold(engine, "members", members[1]!, { owner: null });
    const [result] = await write(
      "groups",
      [group],
      { set: { name: "lost" }, ...COMPLETE },
      {
        related: [relatedGroup("members", group, members, { set: { note: "lost" } })],
      },
    );
    expect(result!.result).toBe("stale");
    expect(await lockOf(engine, "members", members[0]!)).toEqual(FREE);
    expect(await lockOf(engine, "members", members[1]!)).toMatchObject({ owner: null, live: true });
    expect(await engine.query("select 1 from members where note = 'lost'")).toEqual([]);
    expect(await engine.row("groups", id)).toMatchObject({ name: "g" });
  });
});

describe("the other endings", () => {
  test.each(["reset", "fail", "release"] as const)("%s unlocks the related rows", async (step) => {
    const { id, members, group } = await lockedGroup(2);
    await endRows(engine, step, [group], { pipeline: "groups", keep: true });
    for (const member of members) expect(await lockOf(engine, "members", member)).toEqual(FREE);
    expect(await item(id)).toMatchObject({ related: null, finished: true });
    expect((await lockOf(engine, "groups", id)).owner).toBe(step === "reset" ? "groups" : null);
  });

  test.each(["reset", "fail", "release"] as const)("a stale %s frees only what carries its token", async (step) => {
    const { id, members, group } = await lockedGroup(2);
    const token = crypto.randomUUID();
    await engine.query("update groups set lock_token = $1 where id = $2", [token, id]);
    await hold(engine, "members", members[1]!, { owner: "groups", token });
    const [result] = await endRows(engine, step, [group], { pipeline: "groups" });
    expect(result!.result).toBe("stale");
    expect(await lockOf(engine, "members", members[0]!)).toEqual(FREE);
    expect(await lockOf(engine, "members", members[1]!)).toMatchObject({ token });
  });

  test("a failure hints those that made way", async () => {
    const { id } = await engine.group(1);
    const group = await takeRow(engine, "groups", id);
    await engine.query("update members set due_at = now()");
    const [kept] = await endRows(engine, "reset", [group], { pipeline: "groups", keep: true });
    expect(JSON.parse(kept!.hints)).toEqual([]);
    const again = await takeRow(engine, "groups", id);
    await engine.query("update members set due_at = now()");
    const [failed] = await endRows(engine, "fail", [again], { pipeline: "groups" });
    expect(JSON.parse(failed!.hints)).toEqual(["members"]);
  });
});

describe("what an attempt that died has left locked", () => {
  const leave = async () => {
    const { id, members } = await engine.group(2);
    const task = await engine.insert("tasks", { status: "running", member_ids: members });
    const first = await takeRow(engine, "tasks", task);
    await lockRows(engine, "tasks", [first]);
    // its worker dies, and the row does not want the second member any more
    await engine.past(
      "update tasks set lock_expires_at = now() - interval '1 s', member_ids = array[$2]::uuid[] where id = $1",
      [task, members[0]],
    );
    return { id, members, second: await takeRow(engine, "tasks", task) };
  };

  test("is freed by an accepted answer", async () => {
    const { members, second } = await leave();
    expect((await lockRows(engine, "tasks", [second]))[0]!.related).toEqual({ members: [members[0]] });
    const [result] = await write("tasks", [second], {}, { related: [relatedGroup("members", second, [members[0]!])] });
    expect(result!.result).toBe("applied");
    for (const member of members) expect(await lockOf(engine, "members", member)).toEqual(FREE);
  });

  test.each(["reset", "fail", "release"] as const)("is freed by a %s before anything is locked anew", async (step) => {
    const { members, second } = await leave();
    await endRows(engine, step, [second], { pipeline: "tasks" });
    for (const member of members) expect(await lockOf(engine, "members", member)).toEqual(FREE);
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

describe("reserved children", () => {
  const reserve = async () => {
    const { id, members } = await engine.group(2, { status: "closing" });
    await hold(engine, "members", members[0]!);
    const group = await takeRow(engine, "groups", id);
    expect((await lockRows(engine, "groups", [group]))[0]!.result).toBe("contention");
    return { id, members, group };
  };
  const reserved = (members: readonly string[]) => lockOf(engine, "members", members[1]!);

  test("stay reserved while the parent waits", async () => {
    const { members, group } = await reserve();
    await endRows(engine, "reset", [group], { pipeline: "groups", keep: true });
    expect(await reserved(members)).toEqual({ ...FREE, owner: "groups" });
  });

  test.each(["reset", "fail", "release"] as const)("are let go by a %s that does not wait", async (step) => {
    const { members, group } = await reserve();
    await endRows(engine, step, [group], { pipeline: "groups", keep: false });
    expect(await reserved(members)).toEqual(FREE);
  });

  test("are let go by an accepted answer that did not need them", async () => {
    const { members, group } = await reserve();
    expect((await write("groups", [group], {}, {}))[0]!.result).toBe("applied");
    expect(await reserved(members)).toEqual(FREE);
  });

  test("are not touched by a stale ending, and those of another group never", async () => {
    const { id, members, group } = await reserve();
    const other = await reserve();
    await engine.query("update groups set lock_token = gen_random_uuid() where id = $1", [id]);
    await endRows(engine, "fail", [group], { pipeline: "groups" });
    expect(await reserved(members)).toEqual({ ...FREE, owner: "groups" });
    await endRows(engine, "fail", [other.group], { pipeline: "groups" });
    expect(await reserved(members)).toEqual({ ...FREE, owner: "groups" });
    expect(await reserved(other.members)).toEqual(FREE);
  });
});
