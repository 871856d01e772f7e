import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { passOf } from "../../lib/engine/events.ts";
import { type LocalStack, startLocalStack } from "../support/stack.ts";
import { until } from "../support/until.ts";
import {
  cloudFault,
  cloudLog,
  createVolume,
  directoriesOf,
  eventsOf,
  expectRest,
  itemOf,
  statementCalls,
  untilItem,
  untilStatus,
} from "../support/volumes.ts";

let stack: LocalStack;
beforeAll(async () => {
  stack = await startLocalStack();
});
afterAll(() => stack?.stop());

/** Of the protocol: a dead worker's lock expires, a heartbeat notices, another worker claims. */
const TAKEN_OVER_SECONDS = 45;
/** Of the protocol: a lost message is noticed after 30 s, at the next heartbeat. */
const SENT_AGAIN_SECONDS = 60;

const queueFault = (kind: "drop" | "delay", count: number, seconds?: number) =>
  stack.control("POST", "/queues/volumes/faults", { kind, count, ...(seconds === undefined ? {} : { seconds }) });

/** The database's clock. */
const now = async (): Promise<string> => (await stack.sql("select clock_timestamp()::text as now"))[0].now;

/** Resolves when a volume's create waits at the cloud: its fault is spent, and nothing is logged yet. */
async function untilAtCloud(name: string): Promise<void> {
  const waits = async () => {
    const faults = (await stack.control("GET", "/cloud/faults")).body as { match: string }[];
    return faults.every(({ match }) => match !== name);
  };
  await until(waits, { what: `the create of ${name} to reach the cloud`, timeoutMs: 60_000, everyMs: 50 });
}

describe.concurrent("while no heartbeater runs", () => {
  const SLOW = "slow-pass";
  beforeAll(() => stack.control("POST", "/functions/heartbeater/stop"));
  afterAll(() => stack.control("POST", "/functions/heartbeater/start"));

  test("a pass of 40 s under a lock of 30 s is applied once: its worker renews it", async () => {
    const renewals = await statementCalls(stack, "renew volumes");
    await cloudFault(stack, { match: SLOW, kind: "delay", seconds: 40 });
    const { id } = await createVolume(stack, SLOW);
    await untilStatus(stack, SLOW, "active", { timeoutMs: 120_000 });
    await expectRest(stack, SLOW);
    const applied = eventsOf(stack, "worker-volumes", "item.applied", id);
    expect(applied.length).toBe(1);
    expect(applied[0].ms).toBeGreaterThanOrEqual(40_000);
    expect(eventsOf(stack, "worker-volumes", "item.claimed", id).length).toBe(1);
    expect((await cloudLog(stack, SLOW)).map((line) => line.outcome)).toEqual(["created"]);
    expect(directoriesOf(stack, SLOW)).toBe(1);
    expect((await statementCalls(stack, "renew volumes")) - renewals).toBeGreaterThanOrEqual(4);
  });

  test("queued rows expire, a fetch takes them again, and their old messages are stale", async () => {
    const find = async () => (await stack.sql("select id from volumes where name = $1", [SLOW]))[0];
    const slow = await until(find, { what: "the slow volume", timeoutMs: 60_000, everyMs: 50 });
    await untilItem(stack, slow.id, (i) => i.state === "processing", "processing");

    const names = ["late-1", "late-2", "late-3"];
    // beyond a lock and a period of the schedule, after which they have been fetched again for certain
    await queueFault("delay", names.length, 30 + 60 + 20);
    const ids: string[] = [];
    for (const name of names) ids.push((await createVolume(stack, name)).id);
    const old = new Map<string, string>();
    for (const id of ids) {
      await untilItem(stack, id, (i) => i.state === "queued", "queued");
      old.set(id, (await itemOf(stack, id)).lock_token);
    }
    await untilStatus(stack, "late-", "active", { count: names.length, timeoutMs: 150_000 });
    for (const [id, token] of old) {
      const stale = () => eventsOf(stack, "worker-volumes", "item.stale", id).filter((e) => e.pass === passOf(token));
      await until(() => stale().length > 0, { what: "the old message", timeoutMs: 150_000, everyMs: 200 });
      expect(stale()).toMatchObject([{ phase: "claim" }]);
      expect(eventsOf(stack, "worker-volumes", "item.claimed", id).length).toBe(1);
      expect(eventsOf(stack, "worker-volumes", "item.applied", id).length).toBe(1);
    }
    for (const name of names) expect([name, directoriesOf(stack, name)]).toEqual([name, 1]);
    const sends = stack.queueLog().filter((e) => e.op === "send" && e.queue === "volumes");
    for (const id of ids) expect(sends.filter((e) => e.body?.includes(id)).length).toBe(2);
    await expectRest(stack, "late-");
  });
});

test("kill -9 in the middle of a create: another process takes over within 45 s, and the volume is there once", async () => {
  await cloudFault(stack, { match: "killed", kind: "delay", seconds: 20 });
  const { id } = await createVolume(stack, "killed");
  await untilAtCloud("killed");
  const first = await itemOf(stack, id);
  await cloudFault(stack, { match: "killed", kind: "delay", seconds: 4 });
  const functions = (await stack.control("GET", "/functions")).body as { name: string; pids: number[] }[];
  const killedAt = await now();
  for (const pid of functions.find(({ name }) => name === "worker-volumes")!.pids) process.kill(pid, "SIGKILL");

  await untilItem(stack, id, (i) => i.state === "processing" && i.worker !== first.worker, "taken over", 120_000);
  const [second] = await stack.sql(
    "select worker, attempts, last_error, extract(epoch from claimed_at - $2::timestamptz)::float8 as after from millrace.items where item_id = $1",
    [id, killedAt],
  );
  expect(second.after).toBeGreaterThan(0);
  expect(second.after).toBeLessThanOrEqual(TAKEN_OVER_SECONDS);
  expect(second).toMatchObject({ attempts: 2, last_error: "worker lost" });
  expect((await stack.api("GET", `/volumes/${id}`)).body).toMatchObject({ attempts: 2, lastError: "worker lost" });
  expect(eventsOf(stack, "fetcher", "item.lost", id)).toMatchObject([{ attempts: 1, dead: false }]);

  await untilStatus(stack, "killed", "active");
  expect(await itemOf(stack, id)).toMatchObject({ attempts: 0, last_error: null, worker: second.worker });
  const log = await cloudLog(stack, "killed");
  expect(log.map((line) => line.outcome)).toEqual(["created", "existing"]);
  expect(new Set(log.map((line) => line.key)).size).toBe(1);
  expect(directoriesOf(stack, "killed")).toBe(1);
  await expectRest(stack, "killed");
  console.log(`taken over ${second.after.toFixed(1)} s after the kill`);
});

test("a worker frozen beyond its lease: another takes over, and its own apply is stale when it thaws", async () => {
  await cloudFault(stack, { match: "frozen", kind: "delay", seconds: 5 });
  const { id } = await createVolume(stack, "frozen");
  await untilAtCloud("frozen");
  const first = await itemOf(stack, id);
  const frozenAt = await now();
  expect((await stack.control("POST", "/functions/worker-volumes/freeze")).body.pids.length).toBe(1);
  await untilStatus(stack, "frozen", "active", { timeoutMs: 120_000 });
  const second = await itemOf(stack, id);
  expect(second.worker).not.toBe(first.worker);
  const [{ after }] = await stack.sql("select extract(epoch from $1 - $2::timestamptz)::float8 as after", [
    second.claimed_at,
    frozenAt,
  ]);
  expect(after).toBeLessThanOrEqual(TAKEN_OVER_SECONDS);

  expect((await stack.control("POST", "/functions/worker-volumes/start")).status).toBe(200);
  await until(() => eventsOf(stack, "worker-volumes", "item.stale", id).length > 0, {
    what: "the thawed worker's stale apply",
    timeoutMs: 60_000,
  });
  expect(eventsOf(stack, "worker-volumes", "item.stale", id)).toMatchObject([
    { phase: "apply", pass: passOf(first.lock_token) },
  ]);
  expect(eventsOf(stack, "worker-volumes", "item.applied", id)).toMatchObject([{ pass: passOf(second.applied_token) }]);
  expect((await cloudLog(stack, "frozen")).map((line) => line.outcome)).toEqual(["created", "existing"]);
  expect(directoriesOf(stack, "frozen")).toBe(1);
  const [row] = await stack.sql("select status from volumes where id = $1", [id]);
  expect(row.status).toBe("active");
  await expectRest(stack, "frozen");
  console.log(`taken over ${after.toFixed(1)} s after the freeze`);
});

test("a message that gets lost is sent again by the heartbeater", async () => {
  await queueFault("drop", 1);
  const { id } = await createVolume(stack, "dropped");
  await untilStatus(stack, "dropped", "active", { timeoutMs: 120_000 });
  const [{ after }] = await stack.sql(
    "select extract(epoch from activated_at - created_at)::float8 as after from volumes where id = $1",
    [id],
  );
  expect(after).toBeLessThanOrEqual(SENT_AGAIN_SECONDS);
  expect(eventsOf(stack, "heartbeater", "items.resent").length).toBeGreaterThan(0);
  expect(eventsOf(stack, "worker-volumes", "item.claimed", id)).toMatchObject([{ attempt: 1 }]);
  expect(directoriesOf(stack, "dropped")).toBe(1);
  await expectRest(stack, "dropped");
  console.log(`active ${after.toFixed(1)} s after its insert`);
});
