import { afterAll, beforeAll } from "vitest";
import { describePipeline } from "../../../lib/testing/index.ts";
import { relatedPasses } from "../../support/related-passes.ts";
import { createRelatedEngine, type RelatedEngine } from "../../support/related-tables.ts";

const registry = relatedPasses({
  // a group goes with its members
  closing: {
    process: ({ related, apply }: never) =>
      (apply as (changes: object) => unknown)({
        delete: true,
        related: {
          members: (related as { members: { id: string }[] }).members.map(({ id }) => ({ id, delete: true })),
        },
      }),
  },
});
let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());

const common = { database: () => engine.api, registry, services: () => ({}), clear: () => engine.clear() };
/** A group with two idle members, none of them due. */
async function group(columns = {}) {
  const made = await engine.group(2, { due_at: null, ...columns });
  await engine.query("update members set due_at = null where group_id = $1", [made.id]);
  return made;
}

describePipeline(registry.get("groups"), {
  ...common,
  rows: {
    active: async () => (await group()).id,
    closing: async () => (await group({ status: "closing" })).id,
  },
});
describePipeline(registry.get("members"), {
  ...common,
  rows: { tend: async () => (await group()).members[0]! },
});
describePipeline(registry.get("tasks"), {
  ...common,
  rows: {
    waiting: async () => engine.insert("tasks", { status: "waiting", group_id: (await group()).id }),
    running: async () => engine.insert("tasks", { status: "running", member_ids: (await group()).members }),
  },
});
describePipeline(registry.get("endings"), {
  ...common,
  rows: { ending: async () => engine.insert("tasks", { status: "ending", member_id: (await group()).members[0] }) },
});
