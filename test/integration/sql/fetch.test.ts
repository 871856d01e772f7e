import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createEngine, type TestEngine, testRegistry } from "../../support/engine.ts";
import { answer, applyRows, claimRows, fetchRows, untilBlocked } from "../../support/steps.ts";
import { ago, ahead, itemOf, lockOf } from "../../support/upkeep.ts";

const TOKEN = "00000000-0000-4000-8000-000000000001";

let engine: TestEngine;
beforeAll(async () => {
  engine = await createEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

test("a new row is fetched at once, claimed and applied", async () => {
  const id = await engine.thing();
  const fetched = await fetchRows(engine);
  expect(fetched).toMatchObject({ why: "rows", ids: [id] });
  const [claimed] = await claimRows(engine, [{ id, token: fetched.token }]);
  expect(claimed).toMatchObject({ result: "ours", state: "provision", attempts: 1 });
  const [applied] = await applyRows(engine, [answer(claimed!, { set: { status: "active" }, nows: ["seen_at"] })]);
  expect(applied).toMatchObject({ result: "applied", hint: "checks" });
  const [row] = await engine.query("select *, seen_at = last_processed_at as same from things");
  expect(row).toMatchObject({
    status: "active",
    lock_token: null,
    lock_owner: null,
    lock_expires_at: null,
    same: true,
  });
});

test("an apply waits for a thief that has not committed, is stale, and writes nothing", async () => {
  const id = await engine.thing();
  const fetched = await fetchRows(engine);
  const [claimed] = await claimRows(engine, [{ id, token: fetched.token }]);
  const thief = await engine.database.connect();
  await thief.query("begin");
  await thief.query("update things set lock_token = gen_random_uuid() where id = $1", [id]);
  const applying = applyRows(engine, [answer(claimed!, { set: { note: "mine" } })]);
  await untilBlocked(engine);
  await thief.query("commit");
  expect((await applying)[0]).toMatchObject({ result: "stale" });
  expect(await engine.query("select note from things")).toEqual([{ note: null }]);
});

test("the longest due comes first, then the smaller id", async () => {
  const ids = ["c", "a", "b"].map((c) => `00000000-0000-4000-8000-00000000000${c}`);
  for (const id of ids) await engine.thing({ id, due_at: "2020-01-02" });
  const first = await engine.thing({ id: "ffffffff-0000-4000-8000-000000000000", due_at: "2020-01-01" });
  const wanted = [first, ids[1], ids[2], ids[0]];
  const order: string[] = [];
  // room for one at a time: an item in process takes none
  for (const _ of wanted) {
    await leaveRoom(1);
    order.push(...(await fetchRows(engine)).ids);
    await engine.query("update millrace.items set state = 'processing' where state = 'locked'");
  }
  expect(order).toEqual(wanted);
});

/** Fills the queue of `things` (40 places) but for so many. */
async function leaveRoom(places: number): Promise<void> {
  await engine.query("delete from millrace.items where state = 'queued'");
  await engine.query(
    `insert into millrace.items (item_id, pipeline, state, lock_token, alive_until)
     select gen_random_uuid(), 'things', 'queued', gen_random_uuid(), now() + interval '1 hour' from generate_series(1, $1)`,
    [40 - places],
  );
}

interface LockColumns {
  readonly lock_token?: string;
  readonly lock_owner?: string;
}

test.each<[string, LockColumns & Readonly<Record<string, unknown>>]>([
  ["due in the future", { due_at: "2200-01-01" }],
  ["never due", { due_at: null }],
  ["in no state", { status: "checked" }],
  ["in a state of another pipeline", { status: "active" }],
  ["under a live lock", { lock_token: TOKEN, lock_owner: "things", lock_expires_at: "2200-01-01" }],
  ["under a live lock that nobody owns", { lock_token: TOKEN, lock_expires_at: "2200-01-01" }],
  ["owned by another pipeline without a token", { lock_owner: "checks" }],
  ["under another pipeline's live lock", { lock_token: TOKEN, lock_owner: "checks", lock_expires_at: "2200-01-01" }],
  ["under another pipeline's expired lock", { lock_token: TOKEN, lock_owner: "checks", lock_expires_at: "2020-01-01" }],
])("a row %s is not fetched", async (_, columns) => {
  await engine.thing(columns);
  expect(await fetchRows(engine)).toMatchObject({ why: "empty", ids: [] });
  const [row] = await engine.query("select * from things");
  expect(row).toMatchObject({ lock_token: columns.lock_token ?? null, lock_owner: columns.lock_owner ?? null });
  expect(await engine.query("select * from millrace.items")).toEqual([]);
});

test.each([
  ["free and due", {}, 0],
  ["owned by us without a token", { lock_owner: "things" }, 0],
  ["under our expired lock", { lock_token: TOKEN, lock_owner: "things", lock_expires_at: "2020-01-01" }, 1],
  ["under an expired lock that nobody owns", { lock_token: TOKEN, lock_expires_at: "2020-01-01" }, 1],
])("a row %s is fetched under the fetch's token", async (_, columns, expired) => {
  const id = await engine.thing(columns);
  const fetched = await fetchRows(engine);
  expect(fetched).toMatchObject({ why: "rows", ids: [id], lost: [], expired });
  expect(await lockOf(engine, id)).toMatchObject({ token: fetched.token, owner: "things", expires: ahead(30) });
  expect(await itemOf(engine, id)).toMatchObject({
    state: "locked",
    token: fetched.token,
    suspect: false,
    alive: ahead(30),
  });
});

test("each pipeline of a table fetches its own rows", async () => {
  const submitted = await engine.thing();
  const active = await engine.thing({ status: "active" });
  const deleted = await engine.thing({ status: "active", to_be_deleted: true });
  expect((await fetchRows(engine, { pipeline: "checks" })).ids).toEqual([active]);
  expect(new Set((await fetchRows(engine)).ids)).toEqual(new Set([submitted, deleted]));
});

test("what is remembered of earlier passes stays when a row is fetched again", async () => {
  const id = await engine.thing();
  const [finished, applied] = [crypto.randomUUID(), crypto.randomUUID()];
  await engine.query(
    `insert into millrace.items (item_id, pipeline, state, finished_at, finished_tokens, applied_token, attempts, resets, last_error,
       prev_lock_expired, queued_at, claimed_at, worker)
     values ($1, 'things', 'failed', now(), array[$2::uuid], $3, 3, 2, 'boom', true, now(), now(), 'w')`,
    [id, finished, applied],
  );
  await fetchRows(engine);
  const [item] = await engine.query("select * from millrace.items");
  expect(item).toMatchObject({
    state: "locked",
    finished_tokens: [finished],
    applied_token: applied,
    attempts: 3,
    resets: 2,
    last_error: "boom",
    prev_lock_expired: true,
    finished_at: null,
    queued_at: null,
    claimed_at: null,
    worker: null,
  });
});

test("a fetch tells how long the last heartbeat is ago", async () => {
  expect((await fetchRows(engine)).beat_age).toBeNull();
  await engine.query("insert into millrace.upkeep values ('heartbeat', now() - interval '40 s'), ('sweep', now())");
  expect((await fetchRows(engine)).beat_age).toEqual(ago(40));
});

test("a fetch takes a hundred rows at most, however many workers there are", async () => {
  await engine.query("insert into things (name) select 'n' || g from generate_series(1, 110) g");
  expect((await fetchRows({ ...engine, registry: testRegistry({ workers: 60 }) })).ids).toHaveLength(100);
});
