import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { heartbeatSql } from "../../../lib/sql/heartbeat.ts";
import { renewSql } from "../../../lib/sql/renew.ts";
import { openTransaction } from "../../support/overlap.ts";
import { hold, lockRows, takeRow } from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";
import type { Claimed, Run } from "../../support/steps.ts";
import { ahead } from "../../support/upkeep.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

/** Seconds until the lock of a row ends. */
async function expires(table: string, id: string): Promise<number> {
  const [row] = await engine.query<{ s: number }>(
    `select extract(epoch from lock_expires_at - now())::float8 as s from ${table} where id = $1`,
    [id],
  );
  return row!.s;
}
/** Makes all locks end in so many seconds. */
async function expireIn(seconds: number): Promise<void> {
  for (const name of ["groups", "members", "tasks"])
    await engine.query(
      `update ${name} set lock_expires_at = now() + make_interval(secs => $1) where lock_token is not null`,
      [seconds],
    );
}
const renew = async (pipeline: string, { id, token }: Claimed, left = 600, run: Run = engine.run) =>
  (await run(renewSql(engine.registry.get(pipeline), [{ id, token, left }])))[0]!.renewed;
const beat = async (run: Run = engine.run) => run(heartbeatSql(engine.registry));

/** A group in process with its two members locked. */
async function heldGroup() {
  const group = await engine.group(2);
  const claimed = await takeRow(engine, "groups", group.id);
  const [answer] = await lockRows(engine, "groups", [claimed]);
  expect(answer!.result).toBe("locked");
  return { ...group, claimed };
}
/** A task in process with the member that it shares. */
async function heldTask() {
  const { members } = await engine.group(1);
  const id = await engine.insert("tasks", { member_id: members[0]!, status: "ending" });
  const claimed = await takeRow(engine, "endings", id);
  const [answer] = await lockRows(engine, "endings", [claimed]);
  expect(answer!.result).toBe("locked");
  return { id, member: members[0]!, claimed };
}

test("a renewal extends related rows as their main row: of tables behind it, and before it", async () => {
  const group = await heldGroup();
  const task = await heldTask();
  await expireIn(5);
  expect(await renew("groups", group.claimed)).toBe(true);
  expect(await renew("endings", task.claimed, 3)).toBe(true);
  for (const id of group.members) expect(await expires("members", id)).toEqual(ahead(30));
  expect(await expires("members", task.member)).toEqual(ahead(13));
  expect(await expires("tasks", task.id)).toEqual(ahead(13));
});

test("a related row that carries another token is not extended, its neighbour is", async () => {
  const { members, claimed } = await heldGroup();
  await hold(engine, "members", members[0]!, { owner: "groups", seconds: 5 });
  await engine.query("update members set lock_expires_at = now() + interval '5 s'");
  expect(await renew("groups", claimed)).toBe(true);
  expect(await expires("members", members[0]!)).toEqual(ahead(5));
  expect(await expires("members", members[1]!)).toEqual(ahead(30));
});

test.each([
  ["whose main row is lost", "update groups set lock_token = gen_random_uuid()"],
  ["whose item is not in process", "update millrace.items set state = 'queued'"],
])("related rows %s are not extended by a renewal", async (_, change) => {
  const { members, claimed } = await heldGroup();
  await expireIn(5);
  await engine.query(change);
  expect(await renew("groups", claimed)).toBe(false);
  expect(await expires("members", members[0]!)).toEqual(ahead(5));
});

test("a related row that somebody has locked does not hold up a renewal", async () => {
  const { members, claimed } = await heldGroup();
  await expireIn(5);
  await using other = await openTransaction(engine);
  await other.query("update members set due_at = due_at where id = $1", [members[0]]);
  expect(await renew("groups", claimed)).toBe(true);
  expect(await expires("members", members[0]!)).toEqual(ahead(5));
  expect(await expires("members", members[1]!)).toEqual(ahead(30));
  await other.commit();
  await renew("groups", claimed);
  expect(await expires("members", members[0]!)).toEqual(ahead(30));
});

test("a related row whose thief has not committed is left to the thief, by renewal and heartbeat", async () => {
  const { members, claimed } = await heldGroup();
  await expireIn(5);
  await using thief = await openTransaction(engine);
  await thief.query("update members set lock_token = gen_random_uuid() where id = $1", [members[0]]);
  await renew("groups", claimed);
  await beat();
  await thief.commit();
  expect(await expires("members", members[0]!)).toEqual(ahead(5));
});

test("a heartbeat extends related rows that end soon, of all pipelines, not further than their lease and a tick", async () => {
  const group = await heldGroup();
  const task = await heldTask();
  await expireIn(10);
  await engine.query("update millrace.items set alive_until = now() + interval '8 s' where pipeline = 'endings'");
  const rows = await beat();
  expect(rows.map((r) => [r.pipeline, r.extended])).toEqual([
    ["groups", 1],
    ["members", 0],
    ["endings", 1],
    ["tasks", 0],
  ]);
  for (const id of group.members) expect(await expires("members", id)).toEqual(ahead(30));
  expect(await expires("members", task.member)).toEqual(ahead(18));
  await engine.query("update members set lock_expires_at = now() + interval '20 s'");
  await beat();
  expect(await expires("members", task.member)).toEqual(ahead(20));
});

test("a heartbeat extends a related row though its main row has time left", async () => {
  const { members } = await heldGroup();
  await engine.query("update members set lock_expires_at = now() + interval '5 s'");
  await beat();
  expect(await expires("members", members[0]!)).toEqual(ahead(30));
});

test.each([
  ["whose worker has crashed", "update millrace.items set alive_until = now() - interval '1 s'"],
  ["whose item is only queued", "update millrace.items set state = 'queued'"],
  ["whose main row is lost", "update groups set lock_token = gen_random_uuid()"],
  ["that carry another token", "update members set lock_token = gen_random_uuid()"],
])("related rows %s are not extended by a heartbeat", async (_, change) => {
  const { members } = await heldGroup();
  await expireIn(5);
  await engine.query(change);
  await beat();
  expect(await expires("members", members[0]!)).toEqual(ahead(5));
});

test("a related row that somebody has locked is left for the next heartbeat, without waiting", async () => {
  const { members } = await heldGroup();
  await expireIn(5);
  await using other = await openTransaction(engine);
  await other.query("update members set due_at = due_at where id = $1", [members[0]]);
  await beat();
  expect(await expires("members", members[0]!)).toEqual(ahead(5));
  expect(await expires("members", members[1]!)).toEqual(ahead(30));
});
