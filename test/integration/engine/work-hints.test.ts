import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { NOW, pipelinesFor } from "../../../lib/index.ts";
import { requestRows, thingOf } from "../../support/endings.ts";
import { createEngine, type Schema, type TestEngine, type Thing } from "../../support/engine.ts";
import { gate } from "../../support/gate.ts";
import { passes } from "../../support/passes.ts";
import { fetchMessages, type TestPorts, testPorts, work, workDue } from "../../support/ports.ts";

let engine: TestEngine;
let ports: TestPorts;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(async () => {
  await engine.clear();
  ports = testPorts(engine);
});

describe("hints that follow from an apply", () => {
  test("new rows hint the pipelines of their table; another table's without any, nobody", async () => {
    await engine.query("create table if not exists parts (like things including all)");
    await engine.query("grant all on parts to millrace_app");
    const parts = pipelinesFor<Schema & { parts: Thing }, unknown>().on("parts");
    const cut = parts.state({ ready: (eb) => eb("status", "=", "submitted"), process: ({ apply }) => apply({}) });
    const insert = { parts: [{ name: "p" }], logs: [{ message: "hi", at: NOW }] } as never;
    const registry = passes({ provision: { process: ({ apply }) => apply({ insert }) } }, {}, [
      parts.pipeline("cutting", { cut }),
    ]);
    await engine.thing();
    const messages = await fetchMessages(registry, ports);
    ports.hinted.length = 0;
    await work(registry, messages, ports);
    expect(ports.hinted).toContainEqual({ pipeline: "cutting", delaySeconds: 0 });
    expect(ports.hinted.filter((h) => h.delaySeconds === 0)).toHaveLength(1);
    expect(await engine.query("select name from parts")).toEqual([{ name: "p" }]);
  });

  test("a column that some ready looks at makes the row due at once, and hints the pipeline whose it is now", async () => {
    const id = await engine.thing();
    const registry = passes({});
    const messages = await fetchMessages(registry, ports);
    ports.hinted.length = 0;
    await work(registry, messages, ports);
    expect(ports.hinted).toEqual([{ pipeline: "checks", delaySeconds: 0 }]);
    expect(Number((await thingOf(engine, id))!["due_in"])).toBeLessThanOrEqual(0);
  });

  test("a row that stays in its state wakes its own pipeline when it is due", async () => {
    await engine.thing();
    const registry = passes({ provision: { process: ({ apply }) => apply({ set: { note: "x" } }) } });
    const messages = await fetchMessages(registry, ports);
    ports.hinted.length = 0;
    await work(registry, messages, ports);
    expect(ports.hinted).toEqual([{ pipeline: "things", at: expect.any(String), delaySeconds: 15 }]);
  });
});

test("a request while a pass runs is acted on at once after it", async () => {
  const id = await engine.thing();
  const inside = gate();
  const registry = passes({
    provision: {
      process: async ({ apply }) => {
        await inside.pass();
        return apply({ set: { note: "by the pass" } });
      },
    },
  });
  const working = workDue(registry, ports);
  await inside.reached;
  await requestRows(engine, [id], { to_be_deleted: true });
  inside.open();
  ports.hinted.length = 0;
  await working;
  expect(await thingOf(engine, id)).toMatchObject({ note: "by the pass", to_be_deleted: true });
  expect(ports.hinted).toContainEqual({ pipeline: "things", delaySeconds: 0 });
  await workDue(registry, ports);
  expect(await thingOf(engine, id)).toBeUndefined();
});

describe("a queue that a fetch found full", () => {
  const full = () => engine.query("update millrace.pipelines set drain = true where name = 'things'");
  const asked = () => ports.hinted.filter((h) => h.pipeline === "things" && h.at === undefined);

  test("is asked to be filled again by the claim that drains it", async () => {
    await engine.thing();
    let before: unknown;
    const registry = passes({
      provision: {
        process: ({ apply }) => {
          before = [...asked()];
          return apply({});
        },
      },
    });
    const messages = await fetchMessages(registry, ports);
    await full();
    await work(registry, messages, ports);
    expect(before).toEqual([{ pipeline: "things", delaySeconds: 0 }]);
  });

  test.each(["apply", "retry", "throw"])("or by the end of a pass: %s", async (how) => {
    await engine.thing();
    const registry = passes({
      provision: {
        process: async ({ apply, retry }) => {
          await full();
          if (how === "throw") throw new Error("boom");
          return how === "retry" ? retry("busy") : apply({ set: { note: "x" } });
        },
      },
    });
    await workDue(registry, ports);
    expect(asked()).toHaveLength(1);
  });

  test("control: of one that was not, nobody is asked", async () => {
    await engine.thing();
    await workDue(passes({ provision: { process: ({ apply }) => apply({ set: { note: "x" } }) } }), ports);
    expect(asked()).toEqual([]);
  });
});
