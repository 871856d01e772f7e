import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Database, fetchPipeline, type Item, MillraceError, type Ports } from "../../../lib/index.ts";
import { drivenClock } from "../../support/driven-clock.ts";
import { itemOf, thingOf } from "../../support/endings.ts";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { passes } from "../../support/passes.ts";
import { counts, type TestPorts, testPorts } from "../../support/ports.ts";
import { fetchRows } from "../../support/steps.ts";
import { until } from "../../support/until.ts";
import { setUpkeep, wakeAt } from "../../support/upkeep.ts";

let engine: TestEngine;
let ports: TestPorts;
/** Room for six. */
const registry = passes({}, { workers: 3 });
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(async () => {
  await engine.clear();
  ports = testPorts(engine);
});

const fetch = async (of: Ports = ports, options = {}) => (await fetchPipeline(registry, "things", of, options)).ended;
const make = (n: number) =>
  engine.query("insert into things (name) select 'n' || g from generate_series(1, $1) g", [n]);
const states = async () =>
  Object.fromEntries(
    (
      await engine.query<{ state: string; n: number }>(
        "select state, count(*)::int as n from millrace.items group by state",
      )
    ).map(({ state, n }) => [state, n]),
  );

describe("a run", () => {
  test("fetches until nothing is due; the marks of the send ride on the last fetch", async () => {
    await make(3);
    expect(await fetch()).toBe(true);
    expect(ports.statements).toEqual(["fetch things", "fetch things"]);
    expect(new Set(ports.sent.map((i) => i.id)).size).toBe(3);
    expect(new Set(ports.sent.map((i) => i.token)).size).toBe(1);
    expect(await states()).toEqual({ queued: 3 });
    expect(ports.events.of("items.fetched")).toEqual([{ pipeline: "things", count: 3, expired: 0 }]);
    expect(ports.events.of("items.queued")).toEqual([{ pipeline: "things", count: 3 }]);
    expect(ports.hinted).toEqual([]);
  });

  test("ends at a full queue, and what is over waits for whoever drains it", async () => {
    await make(9);
    expect(await fetch()).toBe(true);
    expect(ports.sent).toHaveLength(6);
    expect(await states()).toEqual({ queued: 6 });
    expect(await engine.query("select drain from millrace.pipelines where name = 'things'")).toEqual([{ drain: true }]);
  });

  test("where nothing is due is one statement, sends nothing and wakes nobody", async () => {
    expect(await fetch()).toBe(true);
    expect([ports.statements, ports.sent, ports.hinted, ports.woken]).toEqual([["fetch things"], [], [], 0]);
  });

  test("sends the wake-up for the next row ahead, once", async () => {
    await engine.query("insert into things (due_at) values (now() + interval '40.5 s')");
    await fetch();
    await fetch();
    expect(ports.hinted).toEqual([{ pipeline: "things", at: expect.any(String), delaySeconds: 40 }]);
  });

  test("of the schedule sends it always: the last one may have been lost", async () => {
    await engine.query("insert into things (due_at) values (now() + interval '40.5 s')");
    await fetch();
    await fetch(ports, { scheduled: true });
    expect(ports.hinted.map((h) => h.delaySeconds)).toEqual([40, 40]);
  });

  test("of the schedule sends it once, however many fetches it takes", async () => {
    await make(2);
    await engine.query("insert into things (due_at) values (now() + interval '40.5 s')");
    await fetch(ports, { scheduled: true });
    expect(counts(ports.statements)).toEqual({ fetch: 2 });
    expect(ports.hinted).toHaveLength(1);
  });
});

describe("a send that is refused", () => {
  const refusing = (refuse: (item: Item) => boolean): Partial<Ports> => ({
    items: { send: async (items) => items.map((i) => (refuse(i) ? "refused" : "accepted")) },
  });

  test("ends the run: those rows are free at once, and a wake-up is armed once", async () => {
    const bad = await engine.thing({ name: "bad" });
    const good = await engine.thing({ name: "good" });
    ports = testPorts(
      engine,
      refusing((i) => i.id === bad),
    );
    const before = await thingOf(engine, bad);
    expect(await fetch()).toBe(true);
    expect(ports.statements).toEqual(["fetch things", "enqueue things"]);
    expect(await itemOf(engine, good)).toMatchObject({ state: "queued" });
    expect(await itemOf(engine, bad)).toMatchObject({ state: "released" });
    expect(await thingOf(engine, bad)).toMatchObject({ lock_token: null, due_at: before!["due_at"] });
    expect(ports.events.of("items.refused")).toEqual([{ pipeline: "things", count: 1, retrySeconds: 5 }]);
    expect(ports.hinted).toEqual([{ pipeline: "things", at: expect.any(String), delaySeconds: 5 }]);
    // a second run that is refused as well starts no second chain
    await fetch();
    expect(ports.hinted).toHaveLength(1);
    expect(await wakeAt(engine)).toBeGreaterThan(0);
  });

  test("leaves rows that the next run fetches again", async () => {
    await make(2);
    await fetch(
      testPorts(
        engine,
        refusing(() => true),
      ),
    );
    await fetch();
    expect(ports.sent).toHaveLength(2);
    expect(await states()).toEqual({ queued: 2 });
  });
});

describe("another fetch that runs at the same time", () => {
  test("is waited for: a hint must not be lost to an older snapshot", async () => {
    const clock = drivenClock();
    ports = testPorts(engine, { clock });
    await make(1);
    const other = await engine.database.connect();
    await other.query("begin");
    await other.query("select 1 from millrace.pipelines where name = 'things' for update");
    const fetching = fetch();
    await until(() => clock.waits().length > 0, { what: "the pause" });
    // 100 to 500 ms
    expect(clock.waits()).toEqual([300]);
    expect(ports.sent).toEqual([]);
    await clock.advance(300);
    await until(() => clock.waits().length > 0, { what: "the second pause" });
    await other.query("rollback");
    await clock.advance(300);
    expect(await fetching).toBe(true);
    expect(ports.sent).toHaveLength(1);
  });

  test("until the time is up: no hint counts as answered by this run", async () => {
    let left = 90_000;
    const wait = async () => {
      left = 4_000;
    };
    ports = testPorts(engine, { timeLeft: () => left, clock: { now: () => 0, wait } });
    const other = await engine.database.connect();
    await other.query("begin");
    await other.query("select 1 from millrace.pipelines where name = 'things' for update");
    expect(await fetch()).toBe(false);
    await other.query("rollback");
    expect(ports.hinted).toEqual([]);
  });
});

describe("when the time is nearly up", () => {
  test("the run ends, its marks are written, and another run is asked for", async () => {
    await make(4);
    let left = 90_000;
    ports = testPorts(engine, { timeLeft: () => left });
    const send: Ports["items"]["send"] = async (items) => {
      left = 4_000;
      return items.map(() => "accepted");
    };
    expect(await fetch({ ...ports, items: { send } })).toBe(false);
    expect(ports.statements).toEqual(["fetch things", "enqueue things"]);
    expect(await states()).toEqual({ queued: 4 });
    expect(ports.hinted).toEqual([{ pipeline: "things", delaySeconds: 0 }]);
  });

  test("before anything was fetched, a run fetches nothing and says so", async () => {
    ports = testPorts(engine, { timeLeft: () => 5_000 });
    expect(await fetch()).toBe(false);
    expect(ports.statements).toEqual([]);
    expect(ports.hinted).toEqual([{ pipeline: "things", delaySeconds: 0 }]);
  });
});

test("a fetch that fails is reported and sends no hint: the schedule comes anyway", async () => {
  const run: Database["run"] = async () => {
    throw new MillraceError("DATABASE_REFUSED", { statement: "fetch things", message: "down" });
  };
  ports = testPorts(engine, { database: { run } });
  expect(await fetch()).toBe(false);
  expect(ports.events.of("fetch.failed")).toEqual([
    { pipeline: "things", error: "MillraceError: fetch things was refused: down" },
  ]);
  expect(ports.hinted).toEqual([]);
});

describe("the heartbeater", () => {
  const beat = (ago: number) => setUpkeep(engine, "heartbeat", ago);

  test.each([
    ["that was never heard of is started", undefined, 1],
    ["that was silent for two ticks is started", 20.5, 1],
    ["that beats is not", 19, 0],
  ])("%s", async (_, ago, woken) => {
    if (ago !== undefined) await beat(ago);
    await make(9);
    await fetch();
    expect(ports.woken).toBe(woken);
  });

  test("is not started where nothing was locked", async () => {
    await fetch();
    expect(ports.woken).toBe(0);
  });

  test("that cannot be started is reported, and the rows go out", async () => {
    await make(1);
    await fetch({ ...ports, wakeHeartbeater: async () => Promise.reject(new Error("throttled")) });
    expect(ports.events.of("heartbeater.failed")).toEqual([{ error: "Error: throttled" }]);
    expect(ports.sent).toHaveLength(1);
  });
});

test("rows whose worker died, and locks that had expired, are told", async () => {
  const id = await engine.thing();
  await fetchRows(engine);
  await engine.query("update things set lock_expires_at = now() - interval '1 s'");
  await engine.query("update millrace.items set state = 'processing', attempts = 1");
  await fetch();
  expect(ports.events.of("item.lost")).toEqual([{ pipeline: "things", id, attempts: 1, dead: false }]);
  expect(ports.events.of("items.expired")).toEqual([{ pipeline: "things", count: 1 }]);
});
