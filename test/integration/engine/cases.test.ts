import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { endRows, requestRows, takeAgain, takeNew, thingOf } from "../../support/endings.ts";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { passes } from "../../support/passes.ts";
import { fetchMessages, testPorts, work, workDue } from "../../support/ports.ts";
import { answer, applyRows, fetchRows, takeRows } from "../../support/steps.ts";
import { ahead, beat, itemOf, lockOf, queueRows, sweepRows } from "../../support/upkeep.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

/** As if so many seconds had passed since the last passes. */
const later = (seconds: number) =>
  engine.query("update things set due_at = due_at - make_interval(secs => $1)", [seconds]);

describe("a fetch", () => {
  test("of rows of every kind locks exactly those that are due, ready and free", async () => {
    const justNow = await takeNew(engine);
    await applyRows(engine, [answer(justNow)]);
    const another = await takeAgain(engine, await engine.thing({ status: "active" }), "checks");
    // its wish makes it ready for us, but it is still held
    await engine.query("update things set to_be_deleted = true where id = $1", [another.id]);
    const wanted = [
      await engine.thing(),
      await engine.thing({ to_be_deleted: true }),
      await engine.thing({ status: "checked", to_be_deleted: true }),
    ];
    await engine.thing({ status: "checked" });
    await engine.thing({ status: "active" });
    await engine.thing({ due_at: "2200-01-01" });
    const { ids, token } = await fetchRows(engine);
    expect(ids.toSorted()).toEqual(wanted.toSorted());
    for (const id of wanted)
      expect(await lockOf(engine, id)).toMatchObject({ token, owner: "things", expires: ahead(30) });
    const rest = await engine.query(
      "select id, lock_owner, lock_token from things where id <> all($1) and (lock_token, lock_owner, lock_expires_at) is distinct from (null, null, null)",
      [wanted],
    );
    expect(rest).toEqual([{ id: another.id, lock_owner: "checks", lock_token: another.token }]);
  });

  test("gives all of its rows one token, and the next fetch another", async () => {
    for (let n = 0; n < 3; n += 1) await engine.thing();
    const first = await fetchRows(engine);
    const tokens = () => engine.query("select distinct lock_token as token from things where lock_token is not null");
    expect(first.ids).toHaveLength(3);
    expect(await tokens()).toEqual([{ token: first.token }]);
    expect(await engine.query("select distinct lock_token as token from millrace.items")).toEqual(await tokens());
    await engine.thing();
    const second = await fetchRows(engine);
    expect(second.ids).toHaveLength(1);
    expect(await tokens()).toHaveLength(2);
  });

  test("with room for two takes the two that are due longest; the third stays unlocked", async () => {
    // ids in the opposite order, so that they do not decide
    const [third, second, first] = ["a", "b", "c"].map((c) => `00000000-0000-4000-8000-00000000000${c}`) as [
      string,
      string,
      string,
    ];
    for (const [day, id] of [first, second, third].entries()) await engine.thing({ id, due_at: `2020-01-0${day + 1}` });
    await engine.query(
      `insert into millrace.items (item_id, pipeline, state, lock_token, alive_until)
       select gen_random_uuid(), 'things', 'queued', gen_random_uuid(), now() + interval '1 hour' from generate_series(1, 38)`,
    );
    expect((await fetchRows(engine)).ids.toSorted()).toEqual([first, second].toSorted());
    expect(await lockOf(engine, third)).toMatchObject({ token: null, owner: null, expires: null });
  });

  test.each([
    ["an apply", 15],
    ["a reset", 0.5],
  ])("does not take a row again until its interval after %s has passed", async (how, seconds) => {
    const a = await takeNew(engine);
    if (how === "an apply") await applyRows(engine, [answer(a, { due: seconds })]);
    else await endRows(engine, "reset", [a]);
    // a test that is slower than the interval must not see it pass by itself
    await later(-100);
    await later(seconds + 90);
    expect((await fetchRows(engine)).ids).toEqual([]);
    await later(10);
    expect((await fetchRows(engine)).ids).toEqual([a.id]);
  });

  test("between the intervals of two states takes only the rows of the shorter one", async () => {
    const registry = passes({
      provision: { everySeconds: 100, process: ({ apply }) => apply({}) },
      remove: { everySeconds: 200, process: ({ apply }) => apply({}) },
    });
    const ports = testPorts(engine);
    const [fast, slow] = [await engine.thing(), await engine.thing({ to_be_deleted: true })];
    await workDue(registry, ports);
    expect(ports.events.of("item.applied")).toHaveLength(2);
    await later(150);
    expect((await fetchRows(engine)).ids).toEqual([fast]);
    await later(100);
    expect((await fetchRows(engine)).ids).toEqual([slow]);
  });
});

test("a row that was given back with its owner kept is taken again, and is no suspect", async () => {
  const a = await takeNew(engine);
  await endRows(engine, "reset", [a], { keep: true });
  expect(await lockOf(engine, a.id)).toMatchObject({ token: null, owner: "things", expires: null });
  await later(1);
  const told: boolean[] = [];
  const ports = testPorts(engine);
  const registry = passes({
    provision: {
      process: ({ prevLockExpired, apply }) => {
        told.push(prevLockExpired);
        return apply({});
      },
    },
  });
  await workDue(registry, ports);
  expect(told).toEqual([false]);
  expect(ports.events.of("item.lost")).toEqual([]);
});

test("one heartbeat extends the item whose token is fine, and tells the one that was taken from it", async () => {
  const [kept, taken] = [await engine.thing(), await engine.thing()];
  await queueRows(engine);
  const thief = crypto.randomUUID();
  await engine.query("update things set lock_expires_at = now() + interval '12 s'");
  await engine.query("update things set lock_token = $2 where id = $1", [taken, thief]);
  expect(await beat(engine)).toMatchObject({ in_flight: 2, watched: 2, extended: 1, lost: 1 });
  expect(await lockOf(engine, kept)).toMatchObject({ expires: ahead(30) });
  expect(await lockOf(engine, taken)).toMatchObject({ token: thief, expires: ahead(12) });
});

describe("a row of two pipelines", () => {
  test.each(["was given back with its owner kept", "lost its worker"])(
    "that %s and becomes the other's is freed by one sweep, and fetched by the other",
    async (how) => {
      const a = await takeNew(engine);
      if (how === "lost its worker") {
        await engine.query("update things set lock_expires_at = now() - interval '5 min'");
        await engine.query("update millrace.items set alive_until = now() - interval '5 min'");
      } else await endRows(engine, "reset", [a], { keep: true });
      await engine.past("update things set status = 'active' where id = $1", [a.id]);
      // neither of them may have it: it is not ready for its owner, and not the other's
      expect((await fetchRows(engine)).ids).toEqual([]);
      expect((await fetchRows(engine, { pipeline: "checks" })).ids).toEqual([]);
      expect(await sweepRows(engine)).toMatchObject({ unlocked: 1 });
      const [other] = await takeRows(engine, "checks");
      expect(other).toMatchObject({ id: a.id, result: "ours", state: "check", attempts: 1 });
      expect(await applyRows(engine, [answer(other!)], { pipeline: "checks" })).toMatchObject([{ result: "applied" }]);
    },
  );

  test.each([
    ["backs off", "failed", 1],
    ["is dead", "dead", 5],
  ])("that %s for one is fetched at once when it becomes the other's", async (_, state, attempts) => {
    const a = await takeNew(engine);
    await engine.query("update millrace.items set attempts = $1", [attempts]);
    expect(await endRows(engine, "fail", [a])).toMatchObject([{ state }]);
    await engine.query("update things set due_at = due_at + interval '1 hour'");
    expect((await fetchRows(engine)).ids).toEqual([]);
    await engine.query("update things set status = 'active' where id = $1", [a.id]);
    expect(await takeRows(engine, "checks")).toMatchObject([{ id: a.id, state: "check", attempts: 1 }]);
  });
});

test("the key is the same for each attempt, and a new one when the row enters the state again", async () => {
  const id = await engine.thing();
  const keys: string[] = [];
  const ports = testPorts(engine);
  const registry = passes({
    provision: {
      process: ({ key, apply }) => {
        if (keys.push(key) % 2 === 1) throw new Error("no answer");
        return apply({ set: { status: "active" } });
      },
    },
    check: { process: ({ apply }) => apply({ set: { status: "submitted" } }) },
  });
  for (const pipeline of ["things", "things", "checks", "things", "things"]) {
    await engine.query("update things set due_at = now()");
    await work(registry, await fetchMessages(registry, ports, pipeline), ports);
  }
  expect(keys).toEqual([keys[0], keys[0], keys[2], keys[2]]);
  expect(keys[2]).not.toBe(keys[0]);
  expect(await thingOf(engine, id)).toMatchObject({ status: "active" });
});

test("a deletion that fails for good keeps its row, dead, until it is asked for again", async () => {
  const id = await engine.thing({ to_be_deleted: true });
  let inUse = true;
  const ports = testPorts(engine);
  const registry = passes(
    {
      remove: {
        process: ({ apply }) => {
          if (inUse) throw new Error("still in use");
          return apply({ delete: true });
        },
      },
    },
    { maxAttempts: 2 },
  );
  for (let attempt = 1; attempt <= 2; attempt += 1) {
    await engine.query("update things set due_at = now()");
    await workDue(registry, ports);
  }
  expect(await thingOf(engine, id)).toMatchObject({ to_be_deleted: true, due_at: null, lock_token: null });
  expect(await itemOf(engine, id)).toMatchObject({ state: "dead", attempts: 2, last_error: "still in use" });
  inUse = false;
  await workDue(registry, ports);
  expect(await thingOf(engine, id)).toBeDefined();
  await requestRows(engine, [id]);
  await workDue(registry, ports);
  expect(await thingOf(engine, id)).toBeUndefined();
});
