import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { endRows, itemOf } from "../../support/endings.ts";
import {
  applyBeside,
  FREE,
  hold,
  lockedGroup,
  lockOf,
  lockRows,
  relatedGroup,
  takeRow,
} from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

describe("the other endings", () => {
  test.each(["reset", "fail", "release"] as const)("%s unlocks the related rows", async (step) => {
    const { id, members, group } = await lockedGroup(engine, 2);
    await endRows(engine, step, [group], { pipeline: "groups", keep: true });
    for (const member of members) expect(await lockOf(engine, "members", member)).toEqual(FREE);
    expect(await itemOf(engine, id)).toMatchObject({ related: null, finished: true });
    expect((await lockOf(engine, "groups", id)).owner).toBe(step === "reset" ? "groups" : null);
  });

  test.each(["reset", "fail", "release"] as const)("a stale %s frees only what carries its token", async (step) => {
    const { id, members, group } = await lockedGroup(engine, 2);
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
    const [result] = await applyBeside(
      engine,
      "tasks",
      [second],
      {},
      { related: [relatedGroup("members", second, [members[0]!])] },
    );
    expect(result!.result).toBe("applied");
    for (const member of members) expect(await lockOf(engine, "members", member)).toEqual(FREE);
  });

  test.each(["reset", "fail", "release"] as const)("is freed by a %s before anything is locked anew", async (step) => {
    const { members, second } = await leave();
    await endRows(engine, step, [second], { pipeline: "tasks" });
    for (const member of members) expect(await lockOf(engine, "members", member)).toEqual(FREE);
  });
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
    expect((await applyBeside(engine, "groups", [group], {}, {}))[0]!.result).toBe("applied");
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
