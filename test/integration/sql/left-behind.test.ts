import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { applySql } from "../../../lib/sql/apply.ts";
import { scopeOf } from "../../../lib/sql/parts.ts";
import { requestSql } from "../../../lib/sql/request.ts";
import { sweepSql } from "../../../lib/sql/sweep.ts";
import { writeSql } from "../../../lib/sql/write.ts";
import { endRows } from "../../support/endings.ts";
import { openTransaction } from "../../support/overlap.ts";
import { FREE, hold, lockOf, lockRows, relatedGroup, takeRow } from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";
import { answer, claimRows, fetchRows, untilBlocked } from "../../support/steps.ts";

/* What only a scan of the tables would find, once an hour, if the statements around it forgot it. */

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const sweep = () => engine.run(sweepSql(engine.registry, false));
const item = async (id: string) =>
  (
    await engine.query(
      "select state, attempts, resets, related, finished_at is not null as finished from millrace.items where item_id = $1",
      [id],
    )
  )[0];

/** A task that wants a member which somebody holds. */
async function wanting() {
  const { members } = await engine.group(1);
  const id = await engine.insert("tasks", { member_id: members[0]!, status: "ending" });
  await hold(engine, "members", members[0]!);
  const claimed = await takeRow(engine, "endings", id);
  expect(await lockRows(engine, "endings", [claimed])).toMatchObject([{ result: "contention" }]);
  return { id, claimed };
}

describe("a row that waits with its owner kept, and becomes another pipeline's", () => {
  test.each([
    ["by a request", (id: string) => engine.run(requestSql("tasks", engine.registry.of("tasks"), [id], {}))],
    [
      "by a writer",
      (id: string) =>
        engine.run(writeSql(engine.registry, "tasks", { id, token: crypto.randomUUID(), set: {}, nows: [] })),
    ],
  ])("%s: the sweep frees it", async (_, ask) => {
    const { id, claimed } = await wanting();
    await endRows(engine, "reset", [claimed], { pipeline: "endings", keep: true });
    expect(await lockOf(engine, "tasks", id)).toMatchObject({ owner: "endings", token: null });
    await engine.query("update tasks set status = 'waiting' where id = $1", [id]);
    await ask(id);
    await sweep();
    expect(await lockOf(engine, "tasks", id)).toEqual(FREE);
  });

  test("while its pass runs: contention keeps no owner, and hints that pipeline", async () => {
    const { id, claimed } = await wanting();
    await engine.past("update tasks set status = 'waiting' where id = $1", [id]);
    const ended = await endRows(engine, "reset", [claimed], { pipeline: "endings", keep: true });
    expect(ended).toMatchObject([{ result: "ended", hint: "tasks" }]);
    expect(await lockOf(engine, "tasks", id)).toEqual(FREE);
  });

  test("while its pass runs, and its answer finds a related row lost: the same", async () => {
    const { members } = await engine.group(1);
    const id = await engine.insert("tasks", { member_id: members[0]!, status: "ending" });
    const claimed = await takeRow(engine, "endings", id);
    expect(await lockRows(engine, "endings", [claimed])).toMatchObject([{ result: "locked" }]);
    await hold(engine, "members", members[0]!);
    await engine.past("update tasks set status = 'waiting' where id = $1", [id]);
    const scope = scopeOf(engine.registry, engine.registry.get("endings"));
    const related = [relatedGroup("members", claimed, members)];
    const [result] = await engine.run(applySql(scope, [answer(claimed)], { related }));
    expect(result).toMatchObject({ result: "contention", hint: "tasks" });
    expect(await lockOf(engine, "tasks", id)).toEqual(FREE);
  });
});

test("related rows of an item that backs off because its worker died: the sweep frees them, and the item stays as it is", async () => {
  const { members } = await engine.group(1);
  const id = await engine.insert("tasks", { member_id: members[0]!, status: "ending" });
  for (let attempt = 1; attempt <= 2; attempt += 1) {
    const { token } = await fetchRows(engine, { pipeline: "endings" });
    const [claimed] = await claimRows(engine, [{ id, token }], { pipeline: "endings", alone: true });
    expect(await lockRows(engine, "endings", [claimed!])).toMatchObject([{ result: "locked" }]);
    await engine.query("update tasks set lock_expires_at = now() - interval '1 s'");
  }
  expect(await fetchRows(engine, { pipeline: "endings" })).toMatchObject({ ids: [], lost: [{ id, attempts: 2 }] });
  await sweep();
  expect(await lockOf(engine, "members", members[0]!)).toEqual(FREE);
  expect(await item(id)).toMatchObject({ state: "failed", attempts: 2, finished: true });
});

test("related rows that a try without an answer locks while its row is given back stay on the list: the sweep frees them", async () => {
  const { id: group, members } = await engine.group(1);
  const id = await engine.insert("tasks", { group_id: group });
  const claimed = await takeRow(engine, "tasks", id);
  await using slow = await openTransaction(engine);
  expect(await lockRows(engine, "tasks", [claimed], { run: slow.run })).toMatchObject([{ result: "locked" }]);
  const resetting = endRows(engine, "reset", [claimed], { pipeline: "tasks", keep: true });
  await untilBlocked(engine);
  await slow.commit();
  expect(await resetting).toMatchObject([{ result: "ended" }]);
  expect(await item(id)).toMatchObject({ state: "retried", related: { members } });
  await sweep();
  expect(await lockOf(engine, "members", members[0]!)).toEqual(FREE);
});
