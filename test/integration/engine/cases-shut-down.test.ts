import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { passes } from "../../support/passes.ts";
import { fetchMessages, testPorts, work, workDue } from "../../support/ports.ts";
import { itemOf } from "../../support/upkeep.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

describe("a worker that is shut down", () => {
  const applied = (ports: ReturnType<typeof testPorts>) => ports.events.of("item.applied").map((e) => e.id);
  const expire = () => engine.query("update things set lock_expires_at = now() - interval '1 s'");

  test("before its claim: the messages come again, to another that does the work", async () => {
    const ids = [await engine.thing(), await engine.thing()];
    const ports = testPorts(engine);
    const registry = passes({});
    const messages = await fetchMessages(registry, ports);
    const claiming = Promise.withResolvers<void>();
    const run = () => {
      claiming.resolve();
      return new Promise<never>(() => undefined);
    };
    void work(registry, messages, testPorts(engine, { database: { run } })).catch(() => undefined);
    await claiming.promise;
    expect(await work(registry, messages, ports)).toEqual([]);
    expect(applied(ports).toSorted()).toEqual(ids.toSorted());
  });

  test("with messages that never come again: the locks expire, and the rows are fetched anew", async () => {
    const id = await engine.thing();
    const ports = testPorts(engine);
    const registry = passes({});
    const lost = await fetchMessages(registry, ports);
    await expire();
    const again = await fetchMessages(registry, ports);
    expect(again).toHaveLength(1);
    await work(registry, lost, ports);
    expect(applied(ports)).toEqual([]);
    await work(registry, again, ports);
    expect(applied(ports)).toEqual([id]);
  });

  test("in the middle: its message is stale, another takes the row over and knows", async () => {
    const id = await engine.thing();
    const ports = testPorts(engine);
    const began = Promise.withResolvers<void>();
    const never = passes({
      provision: {
        process: () => {
          began.resolve();
          return new Promise<never>(() => undefined);
        },
      },
    });
    const messages = await fetchMessages(never, ports);
    void work(never, messages, ports).catch(() => undefined);
    await began.promise;
    const told: boolean[] = [];
    const registry = passes({
      provision: {
        process: ({ prevLockExpired, apply }) => {
          told.push(prevLockExpired);
          return apply({ set: { status: "active" } });
        },
      },
    });
    await work(registry, messages, ports);
    expect(told).toEqual([]);
    await expire();
    await workDue(registry, ports);
    expect(told).toEqual([true]);
    expect(applied(ports)).toEqual([id]);
    expect(await itemOf(engine, id)).toMatchObject({ state: "applied", attempts: 0 });
  });
});
