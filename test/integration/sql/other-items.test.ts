import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { applySql } from "../../../lib/sql/apply.ts";
import { scopeOf } from "../../../lib/sql/parts.ts";
import { sweepSql } from "../../../lib/sql/sweep.ts";
import { endRows } from "../../support/endings.ts";
import { hold, lockRows, relatedGroup, takeRow } from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";
import { answer, type Claimed, fetchRows } from "../../support/steps.ts";

/* An item is of one row and one pipeline. What becomes of a row's item leaves those of its other pipelines alone. */

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

interface Pass {
  readonly task: Claimed;
  readonly member: string;
}

/** A pass of `tasks` that holds its row and a member; the row was once `endings`'s, which remembers it. */
async function pass(): Promise<Pass> {
  const { members } = await engine.group(1);
  const id = await engine.insert("tasks", { status: "running", member_ids: members });
  const task = await takeRow(engine, "tasks", id);
  await lockRows(engine, "tasks", [task]);
  await engine.query(
    `insert into millrace.items (item_id, pipeline, state, attempts, resets, last_error, finished_at, finished_tokens, related)
    values ($1, 'endings', 'failed', 3, 1, 'before', now(), array[gen_random_uuid()], '{"members": []}')`,
    [id],
  );
  return { task, member: members[0]! };
}

const apply = ({ task, member }: Pass) =>
  engine.run(
    applySql(scopeOf(engine.registry, engine.registry.get("tasks")), [answer(task)], {
      related: [relatedGroup("members", task, [member])],
    }),
  );
const end = (step: Parameters<typeof endRows>[1], task: Claimed) =>
  endRows(engine, step, [task], { pipeline: "tasks" });
const sweep = (scan = false) => engine.run(sweepSql(engine.registry, scan));
const setItem = (values: string) => engine.query(`update millrace.items set ${values} where pipeline = 'tasks'`);

async function dieTwice(): Promise<void> {
  await setItem("attempts = 2");
  await engine.query("update tasks set lock_expires_at = now() - interval '1 s'");
  await fetchRows(engine, { pipeline: "tasks" });
}

test.each<[string, (p: Pass) => Promise<unknown>, item: Readonly<Record<string, unknown>> | null]>([
  ["an accepted answer", apply, { state: "applied" }],
  [
    "an answer that is given back, since a related row is lost",
    async (p) => {
      await hold(engine, "members", p.member);
      await apply(p);
    },
    { state: "retried" },
  ],
  ["a failure", ({ task }) => end("fail", task), { state: "failed" }],
  ["a reset", ({ task }) => end("reset", task), { state: "retried" }],
  ["a release", ({ task }) => end("release", task), { state: "released" }],
  ["a fetch that lets a row back off", dieTwice, { state: "failed" }],
  [
    "a sweep that ends it",
    async () => {
      await engine.query("update tasks set lock_token = null, lock_owner = null, lock_expires_at = null");
      await sweep();
    },
    { state: "lost" },
  ],
  [
    "a sweep that forgets what it had locked",
    async ({ task }) => {
      await end("fail", task);
      await setItem("resets = 1, finished_at = now() - interval '1 hour'");
      await sweep();
    },
    { state: "failed", resets: 0 },
  ],
  [
    "a scan that deletes it",
    async ({ task }) => {
      await end("fail", task);
      await setItem("finished_at = now() - interval '100 days'");
      await engine.query("delete from tasks");
      await sweep(true);
    },
    null,
  ],
])("%s", async (_, act, item) => {
  const made = await pass();
  const items = (pipeline: string) =>
    engine.query("select * from millrace.items where item_id = $1 and pipeline = $2", [made.task.id, pipeline]);
  const before = await items("endings");
  await act(made);
  expect(await items("tasks")).toMatchObject(item === null ? [] : [item]);
  expect(await items("endings")).toEqual(before);
});
