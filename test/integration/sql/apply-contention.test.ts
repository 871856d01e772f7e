import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Beside } from "../../../lib/sql/apply.ts";
import { itemOf } from "../../support/endings.ts";
import { openTransaction } from "../../support/overlap.ts";
import { applyBeside, COMPLETE, FREE, hold, lockedGroup, lockOf, relatedGroup } from "../../support/related-steps.ts";
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
    const { id, members, group } = await lockedGroup(engine, 2);
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
    expect(await itemOf(engine, id)).toMatchObject({
      state: "retried",
      attempts: 0,
      resets: 1,
      related: null,
      finished: true,
    });
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
    const { id, members, group } = await lockedGroup(engine, 1);
    await engine.insert("members", { group_id: id, status: "gone" });
    expect(
      (await write("groups", [group], COMPLETE, { related: [relatedGroup("members", group, members)] }))[0]!.result,
    ).toBe("applied");
  });

  test("a thief of a related row that has not committed: the answer waits, and is contention", async () => {
    const { members, group } = await lockedGroup(engine, 1);
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
    const [a, b] = [await lockedGroup(engine, 1), await lockedGroup(engine, 1)];
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
    const { id, members, group } = await lockedGroup(engine, 2);
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
