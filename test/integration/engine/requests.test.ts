import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createWriter, fetchPipeline, type Ports } from "../../../lib/index.ts";
import { openTransaction } from "../../support/overlap.ts";
import { fetchMessages, messagesOf, type TestPorts, testPorts, work } from "../../support/ports.ts";
import { relatedPasses } from "../../support/related-passes.ts";
import { createRelatedEngine, type RelatedEngine, type RelatedSchema } from "../../support/related-tables.ts";
import { untilBlocked } from "../../support/steps.ts";

/*
 * A wish that is stored at any moment of a pass is carried out: by this pass, or by one that follows at once, without
 * waiting for an interval. Here: a task that runs is asked to stop.
 */

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

/** Passes over a running task: every 15 s while nobody wants it to stop, done as soon as one has seen the wish. */
const registryWith = (at: { load?: () => Promise<void>; process?: () => Promise<void> } = {}) =>
  relatedPasses({
    running: {
      load: async () => at.load?.(),
      process: async ({ row, apply }: never) => {
        await at.process?.();
        const { stop } = row as { stop: boolean };
        return (apply as (c: object) => unknown)({ set: stop ? { status: "done" } : {} });
      },
    },
  });

async function runningTask(): Promise<string> {
  const { members } = await engine.group(1);
  return engine.insert("tasks", { status: "running", member_ids: members });
}

const stop = (id: string) => {
  const { hints } = testPorts(engine);
  return createWriter<RelatedSchema>({ database: engine.api, registry: engine.registry, hints }).request("tasks", id, {
    stop: true,
  });
};

/** Ports that do something around the statement of one step, once. */
function around(step: string, when: "before" | "after", act: () => Promise<unknown>): TestPorts {
  let done = false;
  const ports = testPorts(engine);
  const { run } = engine.api;
  const database: Ports["database"] = {
    async run(statement, options) {
      const here = !done && statement.name.startsWith(`${step} `);
      if (here) done = true;
      if (here && when === "before") await act();
      const answered = await run(statement, options);
      if (here && when === "after") await act();
      return answered;
    },
  };
  return { ...ports, database };
}

/** What is due now, and nothing that has to be waited for. */
async function passAgain(): Promise<void> {
  const ports = testPorts(engine);
  await work(registryWith(), await fetchMessages(registryWith(), ports, "tasks"), ports);
}

const statusOf = async (id: string) => (await engine.row("tasks", id))["status"];

async function carriedOut(id: string): Promise<void> {
  if ((await statusOf(id)) !== "done") await passAgain();
  expect(await statusOf(id)).toBe("done");
  expect(await engine.row("tasks", id)).toMatchObject({ lock_token: null, lock_owner: null });
}

const STEPS = ["fetch", "claim", "lock-related", "related", "apply"] as const;

describe("a wish stored", () => {
  test.each(STEPS.flatMap((step) => (["before", "after"] as const).map((when) => [when, step] as const)))(
    "right %s the statement of %s",
    async (when, step) => {
      const id = await runningTask();
      const ports = around(step, when, () => stop(id));
      const registry = registryWith();
      await fetchPipeline(registry, "tasks", ports);
      await work(registry, messagesOf(ports.sent), ports);
      await carriedOut(id);
    },
  );

  test("while the item is in the queue", async () => {
    const id = await runningTask();
    const ports = testPorts(engine);
    const messages = await fetchMessages(registryWith(), ports, "tasks");
    await stop(id);
    await work(registryWith(), messages, ports);
    await carriedOut(id);
  });

  test.each(["load", "process"] as const)("during %s", async (phase) => {
    const id = await runningTask();
    const ports = testPorts(engine);
    const registry = registryWith({ [phase]: () => stop(id) });
    await work(registry, await fetchMessages(registry, ports, "tasks"), ports);
    await carriedOut(id);
  });

  test("during the apply: its transaction commits first, and the apply waits for it", async () => {
    const id = await runningTask();
    await using open = await openTransaction(engine);
    const ports = around("apply", "before", async () => {
      await open.query("update tasks set stop = true, due_at = now() where id = $1", [id]);
      void untilBlocked(engine).then(() => open.commit());
    });
    const registry = registryWith();
    await fetchPipeline(registry, "tasks", ports);
    await work(registry, messagesOf(ports.sent), ports);
    await carriedOut(id);
  });

  test("while a pass over it throws", async () => {
    const id = await runningTask();
    const ports = testPorts(engine);
    const registry = registryWith({
      process: async () => {
        await stop(id);
        throw new Error("boom");
      },
    });
    await work(registry, await fetchMessages(registry, ports, "tasks"), ports);
    await carriedOut(id);
  });

  test("while its worker dies", async () => {
    const id = await runningTask();
    const ports = testPorts(engine);
    const never = registryWith({ process: () => new Promise(() => undefined) });
    void work(never, await fetchMessages(never, ports, "tasks"), ports).catch(() => undefined);
    await stop(id);
    await engine.query("update tasks set lock_expires_at = now() - interval '1 s' where id = $1", [id]);
    await carriedOut(id);
  });
});
