import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { fetchMessages, testPorts, work } from "../../support/ports.ts";
import { relatedPasses } from "../../support/related-passes.ts";
import { FREE, hold, lockOf, lockRows, takeRow } from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";
import { answer, applyRows } from "../../support/steps.ts";
import { sweepRows } from "../../support/upkeep.ts";
import { writerOn } from "../../support/writers.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const endingTask = async (member: string) =>
  takeRow(engine, "endings", await engine.insert("tasks", { status: "ending", member_id: member }));

test("a shared row whose job died and then left its state is free for others after one sweep", async () => {
  const { members } = await engine.group(1);
  const dead = await endingTask(members[0]!);
  expect(await lockRows(engine, "endings", [dead])).toMatchObject([{ result: "locked" }]);
  await engine.query("update tasks set lock_expires_at = now() - interval '5 min'");
  await engine.query("update members set lock_expires_at = now() - interval '5 min' where lock_token is not null");
  await engine.query("update millrace.items set alive_until = now() - interval '5 min'");
  await engine.past("update tasks set status = 'done' where id = $1", [dead.id]);
  const other = await endingTask(members[0]!);
  expect(await lockRows(engine, "endings", [other])).toMatchObject([{ result: "contention" }]);
  await sweepRows(engine);
  expect(await lockRows(engine, "endings", [other])).toMatchObject([{ result: "locked" }]);
  expect(await lockOf(engine, "members", members[0]!)).toMatchObject({
    token: other.token,
    owner: `endings:${other.id}`,
    live: true,
  });
});

test("rows are locked by a writer although their sibling is held, and its lock is left alone", async () => {
  const [a, held, b] = (await engine.group(3)).members as [string, string, string];
  await hold(engine, "members", held);
  const before = await lockOf(engine, "members", held);
  await writerOn(engine).withLock("members", [a, b], { waitSeconds: 0 }, async (_, mine) => {
    await mine.delete(a);
    await mine.update(b, { note: "mine" });
  });
  expect(await engine.query("select id from members where id = $1", [a])).toEqual([]);
  expect(await engine.row("members", b)).toMatchObject({ note: "mine" });
  expect(await lockOf(engine, "members", b)).toEqual(FREE);
  expect(await lockOf(engine, "members", held)).toEqual(before);
});

test("a held child that the state does not want does not hold its parent up", async () => {
  const { id, members } = await engine.group(2);
  const [gone, wanted] = members as [string, string];
  await engine.query("update members set status = 'gone' where id = $1", [gone]);
  await hold(engine, "members", gone, { owner: "members" });
  const before = await lockOf(engine, "members", gone);
  const group = await takeRow(engine, "groups", id);
  expect(await lockRows(engine, "groups", [group])).toMatchObject([
    { result: "locked", related: { members: [wanted] } },
  ]);
  expect(await lockOf(engine, "members", gone)).toEqual(before);
});

test("a job whose shared row is held is given back, not failed, and goes through when the row is free", async () => {
  const { members } = await engine.group(1);
  await hold(engine, "members", members[0]!);
  const id = await engine.insert("tasks", { status: "running", member_ids: members });
  const registry = relatedPasses({});
  const ports = testPorts(engine);
  await work(registry, await fetchMessages(registry, ports, "tasks"), ports);
  expect(ports.events.of("item.contention")).toMatchObject([{ id, missing: `members ${members[0]}` }]);
  expect(ports.events.of("item.failed")).toEqual([]);
  expect(await engine.row("tasks", id)).toMatchObject({ status: "running", lock_owner: "tasks", lock_token: null });
  await hold(engine, "members", members[0]!, { token: null, seconds: null });
  await engine.query("update tasks set due_at = now()");
  await work(registry, await fetchMessages(registry, ports, "tasks"), ports);
  expect(ports.events.of("item.applied")).toMatchObject([{ id }]);
  expect(await lockOf(engine, "members", members[0]!)).toEqual(FREE);
});

test("a main row that is gone locks nothing, and frees what it had locked", async () => {
  const { members } = await engine.group(1);
  const early = await endingTask(members[0]!);
  await engine.past("delete from tasks where id = $1", [early.id]);
  expect(await lockRows(engine, "endings", [early])).toMatchObject([{ result: "stale", related: {} }]);
  expect(await lockOf(engine, "members", members[0]!)).toEqual(FREE);

  const late = await endingTask(members[0]!);
  expect(await lockRows(engine, "endings", [late])).toMatchObject([{ result: "locked" }]);
  await engine.past("delete from tasks where id = $1", [late.id]);
  expect(await applyRows(engine, [answer(late)], { pipeline: "endings" })).toMatchObject([{ result: "stale" }]);
  expect(await lockOf(engine, "members", members[0]!)).toEqual(FREE);
});
