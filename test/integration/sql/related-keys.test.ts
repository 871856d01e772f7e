import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { fenceTable } from "../../../lib/index.ts";
import { applySql, type Beside } from "../../../lib/sql/apply.ts";
import { scopeOf } from "../../../lib/sql/parts.ts";
import { FREE, lockOf, lockRows, relatedGroup, takeRow } from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";
import { answer, type Claimed } from "../../support/steps.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
  await engine.query(`alter table members drop constraint members_group_id_fkey,
    add foreign key (group_id) references groups on delete cascade`);
  await engine.query("alter table tasks add foreign key (member_id) references members on delete set null");
  await fenceTable(engine.owner.kysely, "tasks", { intent: ["stop", "member_id"] });
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

async function write(pipeline: string, claimed: Claimed, changes: Parameters<typeof answer>[1], beside: Beside = {}) {
  const scope = scopeOf(engine.registry, engine.registry.get(pipeline));
  const [result] = await engine.run(applySql(scope, [answer(claimed, changes)], beside));
  return result!;
}
const item = async (id: string) =>
  (await engine.query("select state, related from millrace.items where item_id = $1", [id]))[0];

describe("foreign keys that act by themselves", () => {
  test("on delete cascade: children that the pass holds and does not name go with their parent", async () => {
    const { id, members } = await engine.group(3, { status: "closing" });
    const claimed = await takeRow(engine, "groups", id);
    await lockRows(engine, "groups", [claimed]);
    const related = relatedGroup("members", claimed, members);
    expect(await write("groups", claimed, { delete: true }, { related: [related] })).toMatchObject({
      result: "applied",
    });
    expect(await engine.query("select 1 from members")).toEqual([]);
    expect(await item(id)).toEqual({ state: "applied", related: null });
  });

  test("on delete cascade: a shared row that goes while a pass holds it is contention, and nothing stays locked", async () => {
    const { id: group, members } = await engine.group(2);
    const id = await engine.insert("tasks", { status: "running", member_ids: members });
    const { members: others } = await engine.group(1);
    await engine.query("update tasks set member_ids = member_ids || $1::uuid[]", [others]);
    const claimed = await takeRow(engine, "tasks", id);
    expect(await lockRows(engine, "tasks", [claimed])).toMatchObject([{ result: "locked" }]);
    await engine.past("delete from groups where id = $1", [group]);
    const related = relatedGroup("members", claimed, [...members, ...others]);
    expect(await write("tasks", claimed, {}, { related: [related] })).toMatchObject({ result: "contention" });
    expect(await lockOf(engine, "members", others[0]!)).toEqual(FREE);
    expect(await item(id)).toEqual({ state: "retried", related: null });
  });

  test("on delete set null: a held row loses the name of a related row, keeps its lock, and its answer is written", async () => {
    const { id: group, members } = await engine.group(1);
    const id = await engine.insert("tasks", { status: "running", member_id: members[0] });
    const task = await takeRow(engine, "tasks", id);
    const parent = await takeRow(engine, "groups", group);
    await lockRows(engine, "groups", [parent]);
    const related = relatedGroup("members", parent, members, { delete: true });
    expect(await write("groups", parent, {}, { related: [related] })).toMatchObject({ result: "applied" });
    expect(await engine.row("tasks", id)).toMatchObject({ member_id: null, lock_token: task.token });
    expect(await write("tasks", task, { set: { status: "done" } })).toMatchObject({ result: "applied" });
    expect(await engine.row("tasks", id)).toMatchObject({ member_id: null, status: "done" });
  });
});
