import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { claimItems, type Held } from "../../../lib/engine/claim.ts";
import type { EventName } from "../../../lib/engine/events.ts";
import { type Finished, finish } from "../../../lib/engine/finish.ts";
import type { Ports } from "../../../lib/engine/ports.ts";
import { fenceTable, systemClock, unfenceTable } from "../../../lib/index.ts";
import { itemOf, thingOf } from "../../support/endings.ts";
import { createEngine, type TestEngine } from "../../support/engine.ts";
import { fetchRows, takeRows } from "../../support/steps.ts";
import { until } from "../../support/until.ts";

let engine: TestEngine;
let events: { readonly name: EventName; readonly id: string | undefined; readonly error: string | undefined }[];
let ports: Ports;
beforeAll(async () => {
  engine = await createEngine();
  await engine.admin(`alter role millrace_app in database ${engine.database.name} set lock_timeout = '300ms'`);
  await unfenceTable(engine.owner.kysely, "things");
  await engine.query("alter table things add constraint positive check (size > 0), alter name type varchar(20)");
  await fenceTable(engine.owner.kysely, "things", { intent: ["to_be_deleted"] });
  ports = {
    database: engine.api,
    reader: undefined as never,
    items: { send: async (items) => items.map(() => "accepted") },
    hints: { send: async () => undefined },
    wakeHeartbeater: async () => undefined,
    events: { emit: (name, payload) => void events.push({ name, id: undefined, error: undefined, ...payload }) },
    clock: systemClock,
    random: () => 0.5,
    timeLeft: () => 30_000,
  };
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(async () => {
  await engine.clear();
  events = [];
});

const ids = (name: EventName) => events.filter((e) => e.name === name).map((e) => e.id!);
const pipeline = () => engine.registry.get("things");

async function takeTen(): Promise<Held[]> {
  await engine.query("insert into things (name) select 'n' || g from generate_series(1, 10) g");
  const state = pipeline().states[0]!;
  return (await takeRows(engine)).map(({ id, token, seen, row }) => {
    return { id, token, seen, row, state, attempt: 1, appliedToken: null, prevLockExpired: false, now: new Date() };
  });
}

const applying = (held: Held, changes: object): Finished => {
  return { held, ending: { kind: "apply", changes, snapshot: {} }, ms: 1 };
};
const finishAll = (finished: readonly Finished[]) => finish(engine.registry, pipeline(), finished, {}, ports);

/** Holds one row in an open transaction. */
async function block(id: string): Promise<() => Promise<unknown>> {
  const other = await engine.database.connect();
  await other.query("begin");
  await other.query("select 1 from things where id = $1 for update", [id]);
  return () => other.query("rollback");
}

describe("an open transaction on one row of ten", () => {
  test("delays the applies of the nine others by one lock timeout, not until it ends", async () => {
    const held = await takeTen();
    const release = await block(held[0]!.id);
    const finishing = finishAll(held.map((h) => applying(h, { set: { note: "done" } })));
    await until(async () => (await engine.query("select 1 from things where note = 'done'")).length === 9, {
      what: "nine applies",
    });
    expect(await thingOf(engine, held[0]!.id)).toMatchObject({ note: null, lock_token: held[0]!.token });
    await release();
    await finishing;
    expect(ids("item.applied").sort()).toEqual(held.map((h) => h.id).sort());
    expect(ids("item.failed")).toEqual([]);
  });

  test("does not hold up their claims until it ends; it is left for later", async () => {
    await engine.query("insert into things (name) select 'n' || g from generate_series(1, 10) g");
    const fetched = await fetchRows(engine);
    const locked = fetched.ids[3]!;
    const release = await block(locked);
    const items = fetched.ids.map((id) => ({ pipeline: "things", id, token: fetched.token }));
    const { held, later, unreached } = await claimItems(pipeline(), items as never, "w", ports);
    expect(held.map((h) => h.attempt)).toEqual(Array(9).fill(1));
    expect(later.map((i) => i.id)).toEqual([locked]);
    expect(unreached).toEqual([]);
    await release();
    expect((await claimItems(pipeline(), later, "w", ports)).held).toMatchObject([{ id: locked, attempt: 1 }]);
  });
});

describe("bad data of one item of ten", () => {
  test.each([
    ["22001", { set: { name: "x".repeat(30), note: "bad" } }],
    ["22P02", { set: { big: "no number", note: "bad" } }],
    ["23514", { set: { size: -1, note: "bad" } }],
    ["23502", { set: { note: "bad" }, insert: { logs: [{ message: "fine" }, { message: null }] } }],
  ])("%s: it fails alone and whole, the others are applied", async (sqlState, changes) => {
    const held = await takeTen();
    await finishAll(held.map((h, n) => applying(h, n === 4 ? changes : { set: { note: "good" } })));
    const bad = held[4]!.id;
    expect(ids("item.applied").sort()).toEqual(
      held
        .map((h) => h.id)
        .filter((id) => id !== bad)
        .sort(),
    );
    expect(ids("item.failed")).toEqual([bad]);
    expect(events.find((e) => e.name === "item.failed")!.error).toContain(sqlState);
    expect(await itemOf(engine, bad)).toMatchObject({ state: "failed", attempts: 1 });
    expect(await thingOf(engine, bad)).toMatchObject({ note: null, lock_token: null });
    expect(await engine.query("select 1 from things where note = 'good'")).toHaveLength(9);
    expect(await engine.query("select message from logs")).toEqual([]);
  });

  test("a value that cannot even be sent fails alone too", async () => {
    const held = await takeTen();
    await finishAll(held.map((h, n) => applying(h, { set: { note: n === 4 ? () => 1 : "good" } })));
    expect(ids("item.failed")).toEqual([held[4]!.id]);
    expect(ids("item.applied")).toHaveLength(9);
  });

  test("so does a column that belongs to the engine", async () => {
    const held = await takeTen();
    await finishAll(held.map((h, n) => applying(h, { set: n === 4 ? { lock_token: null } : { note: "good" } })));
    expect(ids("item.failed")).toEqual([held[4]!.id]);
    expect(ids("item.applied")).toHaveLength(9);
  });
});

test("a patch too large for one request fails alone", async () => {
  const held = await takeTen();
  await finishAll(held.map((h, n) => applying(h, { set: { note: n === 4 ? "x".repeat(5_000_000) : "good" } })));
  expect(ids("item.failed")).toEqual([held[4]!.id]);
  expect(ids("item.applied")).toHaveLength(9);
});

describe("an answer too large for one call", () => {
  test("is asked for piece by piece, and no attempt is counted twice", async () => {
    await engine.query("insert into things (note) select repeat('x', 300000) from generate_series(1, 5)");
    const fetched = await fetchRows(engine);
    const items = fetched.ids.map((id) => ({ pipeline: "things", id, token: fetched.token }));
    const { held, unreached } = await claimItems(pipeline(), items as never, "w", ports);
    expect(unreached).toEqual([]);
    expect(held.map((h) => [h.attempt, String(h.row["note"]).length])).toEqual(Array(5).fill([1, 300_000]));
  });

  test("a single row that is too large is reported, and its batch-mates are claimed", async () => {
    const large = await engine.thing({ note: "x".repeat(1_100_000) });
    const small = await engine.thing();
    const fetched = await fetchRows(engine);
    const items = fetched.ids.map((id) => ({ pipeline: "things", id, token: fetched.token }));
    const { held, unreached } = await claimItems(pipeline(), items as never, "w", ports);
    expect(held.map((h) => h.id)).toEqual([small]);
    expect(unreached).toEqual([]);
    expect(events.find((e) => e.name === "claim.failed")).toMatchObject({
      id: large,
      error: expect.stringContaining("1 MB"),
    });
  });
});
