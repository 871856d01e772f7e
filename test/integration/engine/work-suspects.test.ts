import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Database, MillraceError } from "../../../lib/index.ts";
import { itemOf, thingOf } from "../../support/endings.ts";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { passes } from "../../support/passes.ts";
import { fetchMessages, type TestPorts, testPorts, work, workDue } from "../../support/ports.ts";
import { takeRows } from "../../support/steps.ts";

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

/** As if the worker over these rows had died long ago. */
async function expire(): Promise<void> {
  await engine.query("update things set lock_expires_at = now() - interval '1 s' where lock_token is not null");
  await engine.query("update millrace.items set alive_until = now() - interval '1 s' where finished_at is null");
}

/** A row whose worker died once over it. */
async function suspect(): Promise<string> {
  const id = await engine.thing({ name: "suspect" });
  await takeRows(engine);
  await expire();
  return id;
}

describe("a row whose worker died", () => {
  test("is claimed alone, when its batch-mates are applied", async () => {
    const id = await suspect();
    await engine.query("insert into things (name) select 'mate' from generate_series(1, 3)");
    const seen: { name: string; attempt: number; open: number }[] = [];
    const registry = passes({
      provision: {
        process: async ({ row, attempt, apply }) => {
          const [{ open }] = (await engine.query(
            "select count(*)::int as open from things where name = 'mate' and status = 'submitted'",
          )) as [{ open: number }];
          seen.push({ name: row.name, attempt, open });
          return apply({ set: { status: "active" } });
        },
      },
    });
    const messages = await fetchMessages(registry, ports);
    expect(ports.events.of("item.lost")).toEqual([{ pipeline: "things", id, attempts: 1, dead: false }]);
    expect(await work(registry, messages, ports)).toEqual([]);
    expect(seen.map((s) => s.name)).toEqual(["mate", "mate", "mate", "suspect"]);
    expect(seen.at(-1)).toEqual({ name: "suspect", attempt: 2, open: 0 });
    expect(await itemOf(engine, id)).toMatchObject({ state: "applied", prev_lock_expired: false });
  });

  test("is told so, its batch-mates are not, and it is told no more after an accepted apply", async () => {
    const id = await suspect();
    await engine.thing({ name: "mate" });
    const told: [string, boolean][] = [];
    const registry = passes({
      provision: {
        process: ({ row, prevLockExpired, apply }) => {
          told.push([row.name, prevLockExpired]);
          return apply({ set: { note: "again" }, due: "now" });
        },
      },
    });
    await workDue(registry, ports);
    await engine.query("update things set due_at = now() + interval '1 h' where id <> $1", [id]);
    await workDue(registry, ports);
    expect(told).toEqual([
      ["mate", false],
      ["suspect", true],
      ["suspect", false],
    ]);
  });

  test("several of them one after the other, each claimed right before it runs", async () => {
    await engine.query("insert into things (name) select 'suspect' from generate_series(1, 3)");
    await takeRows(engine);
    await expire();
    const inProcess: number[] = [];
    const registry = passes({
      provision: {
        process: async ({ apply }) => {
          const [{ n }] = (await engine.query(
            "select count(*)::int as n from millrace.items where state = 'processing'",
          )) as [{ n: number }];
          inProcess.push(n);
          return apply({ set: { status: "active" } });
        },
      },
    });
    await workDue(registry, ports);
    expect(inProcess).toEqual([1, 1, 1]);
  });

  test("stays queued when no time is left for it, and its message is done with: it is sent again", async () => {
    const id = await suspect();
    await engine.thing({ name: "mate" });
    const registry = passes({});
    const messages = await fetchMessages(registry, ports);
    ports.statements.length = 0;
    // 60 s for the pass, and twice 10 s to write what came of it
    expect(await work(registry, messages, { ...ports, timeLeft: () => 79_999 })).toEqual([]);
    expect(ports.events.of("item.alone")).toEqual([{ pipeline: "things", id }]);
    expect(ports.statements.filter((s) => s === "claim things")).toHaveLength(1);
    expect(await itemOf(engine, id)).toMatchObject({ state: "queued", attempts: 1 });
    expect(await thingOf(engine, id)).toMatchObject({ lock_token: expect.any(String) });
  });

  test("control: with just enough time it runs", async () => {
    const id = await suspect();
    await engine.thing({ name: "mate" });
    const registry = passes({});
    const messages = await fetchMessages(registry, ports);
    await work(registry, messages, { ...ports, timeLeft: () => 80_000 });
    expect(await itemOf(engine, id)).toMatchObject({ state: "applied" });
  });

  test("alone in its message, it is claimed at once", async () => {
    const id = await suspect();
    const registry = passes({});
    const messages = await fetchMessages(registry, ports);
    ports.statements.length = 0;
    await work(registry, messages, { ...ports, timeLeft: () => 30_000 });
    expect(ports.statements).toEqual(["claim things", "apply things"]);
    expect(await itemOf(engine, id)).toMatchObject({ state: "applied" });
  });

  test("its message comes again when its turn does not reach the database", async () => {
    const id = await suspect();
    await engine.thing({ name: "mate" });
    const registry = passes({});
    const messages = await fetchMessages(registry, ports);
    let claims = 0;
    const run = async (...[statement, options]: Parameters<Database["run"]>) => {
      if (statement.name === "claim things" && ++claims === 2)
        throw new MillraceError("DATABASE_REFUSED", { statement: statement.name, message: "down" });
      return engine.api.run(statement, options);
    };
    const kept = await work(registry, messages, { ...ports, database: { run } as Database });
    expect(kept).toEqual(messages.filter((m) => m.body.includes(id)).map((m) => m.messageId));
    expect(kept).toHaveLength(1);
  });
});

describe("the key for providers", () => {
  const keysOf = (keys: string[], answers: readonly string[]) =>
    passes({
      provision: {
        process: ({ key, apply, retry }) => {
          const answer = answers[keys.push(key) - 1];
          if (answer === "throw") throw new Error("boom");
          return answer === "retry" ? retry("busy") : apply({ set: { note: "x" } });
        },
      },
      remove: {
        process: ({ key, apply }) => {
          keys.push(key);
          return apply({});
        },
      },
    });
  const again = () => engine.query("update things set due_at = now() - interval '1 s'");

  test("stays the same after a failure, a retry and a crash, and is new after an apply", async () => {
    await engine.thing();
    const keys: string[] = [];
    const registry = keysOf(keys, ["throw", "retry", "apply", "apply"]);
    await workDue(registry, ports);
    await again();
    await workDue(registry, ports);
    await again();
    // a worker that dies over it
    await takeRows(engine);
    await expire();
    await workDue(registry, ports);
    expect(ports.events.of("item.lost")).toMatchObject([{ attempts: 2 }]);
    await again();
    await workDue(registry, ports);
    await again();
    await workDue(registry, ports);
    expect(keys).toEqual([keys[0], keys[0], keys[0], expect.any(String)]);
    expect(keys[3]).not.toBe(keys[0]);
  });

  test("is another in another state, and another for another row", async () => {
    const id = await engine.thing();
    await engine.thing({ name: "other" });
    const keys: string[] = [];
    const registry = keysOf(keys, ["throw", "throw"]);
    await workDue(registry, ports);
    await engine.query("update things set to_be_deleted = true, due_at = now() where id = $1", [id]);
    await workDue(registry, ports);
    expect(keys).toHaveLength(3);
    expect(new Set(keys).size).toBe(3);
  });
});
