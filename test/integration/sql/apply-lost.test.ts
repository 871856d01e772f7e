import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { endRows } from "../../support/endings.ts";
import {
  applyBeside,
  FREE,
  hold,
  lockedGroup,
  lockOf,
  lockRows,
  relatedGroup,
  requestGroup,
  takeRow,
} from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

describe("an answer that names a related row which is not its own any more is contention", () => {
  test.each([
    ["held by somebody else", { owner: null }],
    ["held by the same owner under another token", { owner: "groups" }],
    ["reserved for the row", { owner: "groups", token: null, seconds: null }],
  ])("%s", async (_, lock) => {
    const { members, group } = await lockedGroup(engine, 2);
    await hold(engine, "members", members[0]!, lock);
    const beside = { related: [relatedGroup("members", group, members, { set: { note: "lost" } })] };
    expect(await applyBeside(engine, "groups", [group], {}, beside)).toMatchObject([{ result: "contention" }]);
    expect(await engine.query("select 1 from members where note is not null")).toEqual([]);
  });

  test.each([
    ["under another token", { owner: "groups" }],
    ["without one", { owner: "groups", token: null, seconds: null }],
  ])("held by the same owner %s, to be deleted", async (_, lock) => {
    const { members, group } = await lockedGroup(engine, 2);
    await hold(engine, "members", members[0]!, lock);
    const beside = { related: [relatedGroup("members", group, members, { delete: true })] };
    expect(await applyBeside(engine, "groups", [group], {}, beside)).toMatchObject([{ result: "contention" }]);
    expect(await engine.query("select 1 from members")).toHaveLength(2);
  });

  test("though the answer asks for the row as well", async () => {
    const { members, group } = await lockedGroup(engine, 2);
    await hold(engine, "members", members[0]!);
    const related = [relatedGroup("members", group, members, { set: { note: "lost" } })];
    const requests = [requestGroup("members", group, [members[0]!])];
    const [result] = await applyBeside(engine, "groups", [group], {}, { related, requests });
    expect(result).toMatchObject({ result: "contention" });
    expect(await engine.query("select 1 from members where note is not null")).toEqual([]);
  });
});

test("a request that comes meanwhile keeps its time when the answer finds contention, and is hinted", async () => {
  const { id, members, group } = await lockedGroup(engine, 2);
  await hold(engine, "members", members[0]!);
  await engine.query("update groups set wanted = 1, due_at = '2020-01-01' where id = $1", [id]);
  const beside = { related: [relatedGroup("members", group, members)] };
  const [result] = await applyBeside(engine, "groups", [group], {}, beside);
  expect(result).toMatchObject({ result: "contention", hint: "groups" });
  expect(await engine.row("groups", id)).toMatchObject({ wanted: 1, due_at: new Date("2020-01-01T00:00:00Z") });
});

test("a repetition hints nobody for a related row that is held by now", async () => {
  const { members, group } = await lockedGroup(engine, 2);
  await engine.query("update members set due_at = null");
  const beside = { related: [relatedGroup("members", group, members, { set: { status: "new" } })] };
  const [first] = await applyBeside(engine, "groups", [group], {}, beside);
  expect(first).toMatchObject({ result: "applied", hints: '["members"]' });
  for (const member of members) await hold(engine, "members", member, { owner: "members" });
  const [second] = await applyBeside(engine, "groups", [group], {}, beside);
  expect(second).toMatchObject({ result: "already", hints: "[]" });
});

test("children that were reserved stay so when the answer is not accepted", async () => {
  const { id, members } = await engine.group(2, { status: "closing" });
  await hold(engine, "members", members[0]!);
  const group = await takeRow(engine, "groups", id);
  expect(await lockRows(engine, "groups", [group])).toMatchObject([{ result: "contention" }]);
  const answer = { delete: true, locks: ["closing.members"] };
  expect(await applyBeside(engine, "groups", [group], answer, {})).toMatchObject([{ result: "contention" }]);
  expect(await lockOf(engine, "members", members[1]!)).toEqual({ ...FREE, owner: "groups" });
  // it is the row that goes on waiting for them: when it does not, they are let go
  const again = await takeRow(engine, "groups", id);
  await endRows(engine, "fail", [again], { pipeline: "groups" });
  expect(await lockOf(engine, "members", members[1]!)).toEqual(FREE);
});
