import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { stopReads } from "../../support/overlap.ts";
import { FREE, hold, lockOf, lockRows, takeRow } from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";
import { claimRows, fetchRows, untilBlocked } from "../../support/steps.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

describe("a shared row", () => {
  const ending = async (member: string | null) =>
    takeRow(engine, "endings", await engine.insert("tasks", { status: "ending", member_id: member }));

  test("is locked under an owner that names the main row", async () => {
    const { members } = await engine.group(1);
    const task = await ending(members[0]!);
    expect((await lockRows(engine, "endings", [task]))[0]).toMatchObject({
      result: "locked",
      related: { member: members },
    });
    expect(await lockOf(engine, "members", members[0]!)).toMatchObject({
      token: task.token,
      owner: `endings:${task.id}`,
    });
  });

  test("that no column names is not wanted", async () => {
    const task = await ending(null);
    expect((await lockRows(engine, "endings", [task]))[0]).toMatchObject({ result: "locked", related: {} });
  });

  test("that does not exist is gone, with its id", async () => {
    const nobody = crypto.randomUUID();
    const task = await ending(nobody);
    expect((await lockRows(engine, "endings", [task]))[0]).toMatchObject({
      result: "gone",
      missing: { member: [nobody] },
    });
  });

  test("goes to one of two main rows that want it, in one batch and in two", async () => {
    const { members } = await engine.group(1);
    const [a, b] = [await ending(members[0]!), await ending(members[0]!)];
    const both = await lockRows(engine, "endings", [a!, b!]);
    expect(both.map((x) => x.result).sort()).toEqual(["contention", "locked"]);
    const loser = both[0]!.result === "locked" ? b! : a!;
    expect((await lockRows(engine, "endings", [loser]))[0]!.result).toBe("contention");
  });

  test.each([
    ["an expired lock of another main row", -1],
    ["a live lock of another main row", 30],
  ])("with %s that still carries its token is held", async (_, seconds) => {
    const { members } = await engine.group(1);
    const token = crypto.randomUUID();
    const other = await engine.insert("tasks", { status: "done", lock_token: token });
    await hold(engine, "members", members[0]!, { owner: `endings:${other}`, token, seconds });
    expect((await lockRows(engine, "endings", [await ending(members[0]!)]))[0]!.result).toBe("contention");
    // as soon as the other is taken again its old lock is dead
    await engine.query("update tasks set lock_token = gen_random_uuid() where id = $1", [other]);
    expect((await lockRows(engine, "endings", [await ending(members[0]!)]))[0]!.result).toBe("locked");
  });

  test("is taken again by the main row whose pass died", async () => {
    const { members } = await engine.group(1);
    const task = await ending(members[0]!);
    await lockRows(engine, "endings", [task]);
    await engine.query("update tasks set lock_expires_at = now() - interval '1 s' where id = $1", [task.id]);
    const again = await takeRow(engine, "endings", task.id);
    expect((await lockRows(engine, "endings", [again]))[0]!.result).toBe("locked");
    expect(await lockOf(engine, "members", members[0]!)).toMatchObject({ token: again.token });
  });

  test.each([
    ["kept by its pipeline after a reset", { token: null, seconds: null }],
    ["whose own pass has died", { seconds: -1 }],
  ])("that is %s is not taken by others", async (_, lock) => {
    const { members } = await engine.group(1);
    await hold(engine, "members", members[0]!, { owner: "members", ...lock });
    expect((await lockRows(engine, "endings", [await ending(members[0]!)]))[0]!.result).toBe("contention");
  });

  test("makes way while its group waits for all of its members, but for our own expired lock", async () => {
    const { id, members } = await engine.group(1);
    const task = await ending(members[0]!);
    await hold(engine, "groups", id, { owner: "groups", token: null, seconds: null });
    expect((await lockRows(engine, "endings", [task]))[0]!.result).toBe("contention");
    await hold(engine, "members", members[0]!, { owner: `endings:${task.id}`, seconds: -1 });
    expect((await lockRows(engine, "endings", [task]))[0]!.result).toBe("locked");
  });

  test("does not wait for a group that gave up a minute ago, or that somebody else owns", async () => {
    const { id, members } = await engine.group(1);
    const task = await ending(members[0]!);
    await hold(engine, "groups", id, { owner: "somebody", token: null, seconds: null });
    expect((await lockRows(engine, "endings", [task]))[0]!.result).toBe("locked");
    await engine.query("update members set lock_token = null, lock_owner = null, lock_expires_at = null");
    await hold(engine, "groups", id, { owner: "groups", token: null, seconds: null });
    await engine.query("update groups set last_processed_at = now() - interval '61 s'");
    expect((await lockRows(engine, "endings", [task]))[0]!.result).toBe("locked");
  });
});

describe("a list of shared rows", () => {
  const running = async (ids: readonly string[]) =>
    takeRow(engine, "tasks", await engine.insert("tasks", { status: "running", member_ids: ids }));

  test("all or none; an id that stands there twice counts once", async () => {
    const { members } = await engine.group(3);
    const task = await running([members[2]!, members[0]!, members[2]!]);
    const [answer] = await lockRows(engine, "tasks", [task]);
    expect(answer).toMatchObject({ result: "locked", related: { members: [members[0], members[2]] } });
    const other = await running([members[1]!, members[2]!, members[2]!]);
    expect((await lockRows(engine, "tasks", [other]))[0]).toMatchObject({
      result: "contention",
      missing: { members: [members[2]] },
    });
    expect(await lockOf(engine, "members", members[1]!)).toEqual(FREE);
  });

  test("empty: nothing is wanted", async () => {
    expect((await lockRows(engine, "tasks", [await running([])]))[0]).toMatchObject({ result: "locked", related: {} });
  });

  test("that changed while the statement waited for the main row is contention", async () => {
    const { members } = await engine.group(2);
    const task = await running([members[0]!]);
    const other = await engine.database.connect();
    try {
      await other.query("begin");
      // past the fence: by a token that nobody sees
      await other.query("update tasks set member_ids = array[$2]::uuid[], lock_token = $1 where id = $1", [
        task.id,
        members[1],
      ]);
      await other.query("update tasks set lock_token = $2 where id = $1", [task.id, task.token]);
      const locking = lockRows(engine, "tasks", [task]);
      await untilBlocked(engine);
      await other.query("commit");
      expect((await locking)[0]!.result).toBe("contention");
    } finally {
      await other.end();
    }
  });
});

describe("pick", () => {
  const waiting = async (group: string) =>
    takeRow(engine, "tasks", await engine.insert("tasks", { status: "waiting", group_id: group }));

  test("takes the first free row in its order, and only of its own group", async () => {
    await engine.group(2);
    const { id, members } = await engine.group(3);
    await engine.query("update members set busy = 1 where id = $1", [members[0]]);
    const task = await waiting(id);
    const [answer] = await lockRows(engine, "tasks", [task]);
    expect(answer).toMatchObject({ result: "locked", related: { member: [members[1]] } });
    expect(await lockOf(engine, "members", members[1]!)).toMatchObject({
      owner: `tasks:${task.id}`,
      token: task.token,
    });
    expect(await lockOf(engine, "members", members[0]!)).toEqual(FREE);
  });

  test("passes over held rows; none free is contention", async () => {
    const { id, members } = await engine.group(2);
    await hold(engine, "members", members[0]!);
    expect((await lockRows(engine, "tasks", [await waiting(id)]))[0]!.related).toEqual({ member: [members[1]] });
    expect((await lockRows(engine, "tasks", [await waiting(id)]))[0]).toMatchObject({
      result: "contention",
      missing: { member: [] },
    });
  });

  test("a repetition picks the same row again, whatever has become free meanwhile", async () => {
    const { id, members } = await engine.group(2);
    await hold(engine, "members", members[0]!);
    const task = await waiting(id);
    await lockRows(engine, "tasks", [task]);
    await engine.query("update members set lock_token = null, lock_expires_at = null where id = $1", [members[0]]);
    expect((await lockRows(engine, "tasks", [task]))[0]!.related).toEqual({ member: [members[1]] });
  });

  test("looks at the row again under its lock: one that has just been filled is passed over", async () => {
    const { id, members } = await engine.group(2);
    const task = await waiting(id);
    await using stop = await stopReads(engine, "members");
    const locking = lockRows(engine, "tasks", [task]);
    await untilBlocked(engine);
    await engine.query("update members set busy = 2 where id = $1", [members[0]]);
    await stop.goOn();
    expect((await locking)[0]!.related).toEqual({ member: [members[1]] });
  });

  test("twenty at once over five rows: five get one each", async () => {
    const { id, members } = await engine.group(5);
    const ids = await Promise.all(
      Array.from({ length: 20 }, () => engine.insert("tasks", { status: "waiting", group_id: id })),
    );
    const { token } = await fetchRows(engine, { pipeline: "tasks" });
    const tasks = await claimRows(
      engine,
      ids.map((task) => ({ id: task, token })),
      { pipeline: "tasks" },
    );
    const answers = await Promise.all(tasks.map(async (task) => (await lockRows(engine, "tasks", [task]))[0]!));
    const picked = answers.filter((a) => a.result === "locked").flatMap((a) => a.related["member"]!);
    expect(picked.sort()).toEqual(members);
    expect(answers.filter((a) => a.result === "contention")).toHaveLength(15);
  });
});

describe("a fetch of rows that make way", () => {
  test("leaves fresh rows of a waiting parent alone, and takes those with its own expired lock", async () => {
    const { id, members } = await engine.group(3);
    await hold(engine, "groups", id, { owner: "groups", token: null, seconds: null });
    await hold(engine, "members", members[1]!, { owner: "members", seconds: -1 });
    expect((await fetchRows(engine, { pipeline: "members" })).ids).toEqual([members[1]]);
    await engine.query("update groups set lock_owner = null");
    expect((await fetchRows(engine, { pipeline: "members" })).ids.toSorted()).toEqual([members[0], members[2]]);
  });

  test("and of a parent that is being worked on", async () => {
    const { id } = await engine.group(2);
    await takeRow(engine, "groups", id);
    expect((await fetchRows(engine, { pipeline: "members" })).why).toBe("empty");
  });

  test("a parent that has died, or was paused, does not hold them up for ever", async () => {
    const { id } = await engine.group(2);
    await hold(engine, "groups", id, { owner: "groups", seconds: -1 });
    await engine.query("update groups set last_processed_at = now() - interval '2 min'");
    expect((await fetchRows(engine, { pipeline: "members" })).ids).toHaveLength(2);
  });
});
