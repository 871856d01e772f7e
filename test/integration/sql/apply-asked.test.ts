import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { endRows } from "../../support/endings.ts";
import { applyBeside, FREE, hold, lockOf, lockRows, requestGroup, takeRow } from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

/** Members are not due for an hour; the group's next pass asks for the first of them without locking any. */
async function ask(group: string, member: string) {
  const claimed = await takeRow(engine, "groups", group);
  await engine.query("update members set due_at = now() + interval '1 h'");
  const asking = { requests: [requestGroup("members", claimed, [member])] };
  const [result] = await applyBeside(engine, "groups", [claimed], {}, asking);
  return { ...result!, hints: JSON.parse(result!.hints) };
}
const isDue = async (member: string) =>
  (await engine.query<{ due: boolean }>("select due_at <= now() as due from members where id = $1", [member]))[0]!.due;

test("a child that is reserved for the row and asked for by its answer is let go and due", async () => {
  const { id, members } = await engine.group(2, { status: "closing" });
  await hold(engine, "members", members[1]!);
  const claimed = await takeRow(engine, "groups", id);
  expect(await lockRows(engine, "groups", [claimed])).toMatchObject([{ result: "contention" }]);
  await endRows(engine, "reset", [claimed], { pipeline: "groups", keep: true });
  expect(await lockOf(engine, "members", members[0]!)).toMatchObject({ owner: "groups", token: null });
  expect(await ask(id, members[0]!)).toMatchObject({ result: "applied", hints: ["members"] });
  expect(await lockOf(engine, "members", members[0]!)).toEqual(FREE);
  expect(await isDue(members[0]!)).toBe(true);
});

test("so is one that an attempt which died had locked", async () => {
  const { id, members } = await engine.group(2);
  const claimed = await takeRow(engine, "groups", id);
  expect(await lockRows(engine, "groups", [claimed])).toMatchObject([{ result: "locked" }]);
  await engine.query("update groups set lock_expires_at = now() - interval '1 s'");
  expect(await ask(id, members[0]!)).toMatchObject({ result: "applied", hints: ["members"] });
  for (const member of members) expect(await lockOf(engine, "members", member)).toEqual(FREE);
  expect(await isDue(members[0]!)).toBe(true);
  expect(await isDue(members[1]!)).toBe(false);
});

test("a row of somebody else's that is asked for keeps its lock", async () => {
  const { id } = await engine.group(0);
  const { members } = await engine.group(1);
  const token = crypto.randomUUID();
  await hold(engine, "members", members[0]!, { owner: "groups", token });
  expect(await ask(id, members[0]!)).toMatchObject({ result: "applied" });
  expect(await lockOf(engine, "members", members[0]!)).toMatchObject({ owner: "groups", token, live: true });
  expect(await isDue(members[0]!)).toBe(true);
});
