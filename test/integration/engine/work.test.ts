import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { itemBody, NOW } from "../../../lib/index.ts";
import { itemOf, thingOf } from "../../support/endings.ts";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { gate } from "../../support/gate.ts";
import { passes } from "../../support/passes.ts";
import { counts, fetchMessages, type TestPorts, testPorts, work, workDue } from "../../support/ports.ts";

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

const tenThings = () => engine.query("insert into things (name) select 'n' || g from generate_series(1, 10) g");

describe("one row", () => {
  test("from start to end", async () => {
    const id = await engine.thing({ name: "one" });
    const seen: unknown[] = [];
    const registry = passes({
      provision: {
        process: async ({ row, now, attempt, key, signal, extra, apply }, services) => {
          seen.push({ row, now, attempt, key, aborted: signal.aborted, extra, services });
          return apply({ set: { status: "active", seen_at: NOW, note: "done" } });
        },
      },
    });
    expect(await workDue(registry, ports, { cloud: 1 })).toEqual([]);
    expect(seen).toEqual([
      {
        row: expect.objectContaining({ id, name: "one", status: "submitted", size: 1, tags: [], lock_owner: "things" }),
        now: expect.any(Date),
        attempt: 1,
        key: expect.stringMatching(/^[0-9a-f]{32}$/),
        aborted: false,
        extra: undefined,
        services: { cloud: 1 },
      },
    ]);
    expect(await thingOf(engine, id)).toMatchObject({ status: "active", note: "done", lock_token: null });
    expect(await itemOf(engine, id)).toMatchObject({ state: "applied", finished_at: expect.any(Date), attempts: 0 });
    const { token } = ports.events.of("item.claimed")[0]!;
    expect(ports.events.all.filter((e) => e.name.startsWith("item."))).toEqual([
      { name: "item.claimed", payload: { pipeline: "things", id, token, attempt: 1, state: "provision" } },
      {
        name: "item.applied",
        payload: { pipeline: "things", id, token, attempt: 1, state: "provision", ms: expect.any(Number) },
      },
    ]);
  });

  test("shows no column of the engine's own", async () => {
    await engine.thing();
    const columns: string[] = [];
    const registry = passes({
      provision: {
        process: ({ row, apply }) => {
          columns.push(...Object.keys(row));
          return apply({});
        },
      },
    });
    await workDue(registry, ports);
    expect(columns.filter((c) => c.startsWith("millrace"))).toEqual([]);
    expect(columns).toContain("due_at");
  });

  test("is in the state that it is in at the claim, not at the fetch", async () => {
    const id = await engine.thing();
    const registry = passes({});
    const messages = await fetchMessages(registry, ports);
    await engine.query("update things set to_be_deleted = true where id = $1", [id]);
    await work(registry, messages, ports);
    expect(ports.events.of("item.applied")).toMatchObject([{ id, state: "remove" }]);
    expect(await thingOf(engine, id)).toBeUndefined();
  });

  test("that has left every state is given back untouched", async () => {
    const id = await engine.thing();
    const registry = passes({});
    const messages = await fetchMessages(registry, ports);
    await engine.past("update things set status = 'failed' where id = $1", [id]);
    const before = await thingOf(engine, id);
    await work(registry, messages, ports);
    expect(ports.events.of("item.released")).toMatchObject([{ pipeline: "things", id }]);
    expect(ports.events.of("item.claimed")).toEqual([]);
    expect(await thingOf(engine, id)).toMatchObject({
      lock_token: null,
      lock_owner: null,
      last_processed_at: before!["last_processed_at"],
    });
    expect(await itemOf(engine, id)).toMatchObject({ state: "released", attempts: 0 });
  });
});

describe("a batch", () => {
  test("of ten is one claim and one apply", async () => {
    await tenThings();
    const registry = passes({});
    const messages = await fetchMessages(registry, ports);
    ports.statements.length = 0;
    await work(registry, messages, ports);
    expect(counts(ports.statements)).toEqual({ claim: 1, apply: 1 });
    expect(ports.events.of("item.applied")).toHaveLength(10);
    expect(await engine.query("select distinct status, seen_at = last_processed_at as same from things")).toEqual([
      { status: "active", same: true },
    ]);
  });

  test("writes what is done while a slow one still runs", async () => {
    await tenThings();
    const slow = gate();
    const registry = passes({
      provision: {
        process: async ({ row, apply }) => {
          if (row.name === "n1") await slow.pass();
          return apply({ set: { status: "active" } });
        },
      },
    });
    const working = workDue(registry, ports);
    await slow.reached;
    await expect.poll(async () => (await engine.query("select 1 from things where status = 'active'")).length).toBe(9);
    slow.open();
    await working;
    expect(await engine.query("select 1 from things where status = 'active'")).toHaveLength(10);
  });

  test("with a message twice runs it once", async () => {
    await engine.thing();
    let runs = 0;
    const registry = passes({
      provision: {
        process: ({ apply }) => {
          runs += 1;
          return apply({});
        },
      },
    });
    const [message] = await fetchMessages(registry, ports);
    expect(await work(registry, [message!, { ...message!, messageId: "copy" }], ports)).toEqual([]);
    expect(await work(registry, [message!], ports)).toEqual([]);
    expect(runs).toBe(1);
    expect(ports.events.of("item.stale").map((e) => e.phase)).toEqual(["claim", "claim"]);
  });

  test("names messages that mean nothing, keeps none of them, and works on the rest", async () => {
    const id = await engine.thing();
    const registry = passes({});
    const good = await fetchMessages(registry, ports);
    const { token } = ports.sent[0]!;
    const bad = [
      { messageId: "a", body: "{" },
      { messageId: "b", body: itemBody({ pipeline: "volumes", id, token }) },
      { messageId: "c", body: '{"v":1,"pipeline":"things","id":"x","token":"y"}' },
    ];
    expect(await work(registry, [...bad, ...good], ports)).toEqual([]);
    const reported = (name: "message.malformed" | "message.unknown") =>
      ports.events.of(name).map((e) => [e.messageId, e.code]);
    expect(reported("message.malformed")).toEqual([
      ["a", "ITEM_MALFORMED"],
      ["c", "ITEM_MALFORMED"],
    ]);
    expect(reported("message.unknown")).toEqual([["b", "PIPELINE_UNKNOWN"]]);
    expect(ports.events.of("item.applied")).toMatchObject([{ id }]);
  });

  test("of several pipelines: each under its own", async () => {
    const submitted = await engine.thing();
    const active = await engine.thing({ status: "active" });
    const registry = passes({});
    const messages = [...(await fetchMessages(registry, ports)), ...(await fetchMessages(registry, ports, "checks"))];
    await work(registry, messages, ports);
    const applied = ports.events.of("item.applied").map(({ pipeline, id }) => [pipeline, id]);
    expect(applied).toEqual([
      ["things", submitted],
      ["checks", active],
    ]);
  });
});

test("load reads with a handle that can only select, and process gets what it found", async () => {
  const id = await engine.thing({ name: "twin" });
  await engine.thing({ name: "twin", status: "active" });
  let handle: object = {};
  const extras: unknown[] = [];
  const registry = passes({
    provision: {
      load: async (db, { row, now }) => {
        handle = db;
        const { n } = await db
          .selectFrom("things")
          .select(sql<number>`count(*)::int`.as("n"))
          .where("name", "=", row.name)
          .executeTakeFirstOrThrow();
        return { n, now };
      },
      process: ({ extra, now, apply }) => {
        extras.push({ ...extra, same: extra.now === now });
        return apply({});
      },
    },
  });
  await workDue(registry, ports);
  expect(extras).toMatchObject([{ n: 2, same: true }]);
  expect(Object.keys(handle)).toEqual(["selectFrom"]);
  expect(await itemOf(engine, id)).toMatchObject({ state: "applied" });
});

test("a load that fails is a failed attempt", async () => {
  const id = await engine.thing();
  const registry = passes({
    provision: {
      load: async () => {
        throw new Error("no twin");
      },
    },
  });
  await workDue(registry, ports);
  expect(await itemOf(engine, id)).toMatchObject({ state: "failed", last_error: "no twin" });
});
