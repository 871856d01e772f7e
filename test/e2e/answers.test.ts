import { afterAll, beforeAll, expect, test } from "vitest";
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
  untilStatus,
} from "../support/volumes.ts";

let stack: LocalStack;
beforeAll(async () => {
  stack = await startLocalStack();
});
afterAll(() => stack?.stop());

/** Of the protocol: a dead worker's lock expires, a heartbeat notices, another worker claims. */
const TAKEN_OVER_SECONDS = 45;
const APPLY = "millrace:apply";
const dataApiFault = async (fault: { kind: string; match: string; count?: number; code?: string }) =>
  expect((await stack.control("POST", "/data-api/faults", fault)).status).toBe(201);

/** What a worker said at the end of a volume's passes. */
const endsOf = (id: string) =>
  stack
    .logs("worker-volumes")
    .filter((line) => line.id === id && line.message !== "item.claimed")
    .map((line) => line.message);

async function expectAppliedOnce(name: string, id: string): Promise<void> {
  await expectRest(stack, name);
  expect((await stack.api("GET", `/volumes/${id}`)).body).toMatchObject({ status: "active", attempts: 0 });
  expect(await itemOf(stack, id)).toMatchObject({ state: "applied", last_error: null });
  expect((await cloudLog(stack, name)).map((line) => line.outcome)).toEqual(["created"]);
  expect(directoriesOf(stack, name)).toBe(1);
  expect(eventsOf(stack, "worker-volumes", "item.compensated", id)).toEqual([]);
  expect(eventsOf(stack, "worker-volumes", "item.claimed", id).length).toBe(1);
}

test("an apply whose answer got lost is asked again, and already done", async () => {
  await dataApiFault({ kind: "lostAnswer", match: APPLY });
  const { id } = await createVolume(stack, "lost-once");
  await untilStatus(stack, "lost-once", "active");
  await until(() => endsOf(id).length > 0, { what: "the end of the pass", timeoutMs: 60_000 });
  await expectAppliedOnce("lost-once", id);
  expect(eventsOf(stack, "worker-volumes", "item.already", id)).toMatchObject([{ phase: "apply" }]);
  expect(endsOf(id)).toEqual(["item.already"]);
});

test("an apply of which no answer ever comes is unknown: nothing is undone", async () => {
  await dataApiFault({ kind: "lostAnswer", match: APPLY });
  await dataApiFault({ kind: "error", match: APPLY, code: "ForbiddenException" });
  const { id } = await createVolume(stack, "never-known");
  await untilStatus(stack, "never-known", "active");
  await until(() => endsOf(id).length > 0, { what: "the end of the pass", timeoutMs: 60_000 });
  await expectAppliedOnce("never-known", id);
  expect(endsOf(id)).toEqual(["item.unknown"]);
  expect((await stack.control("GET", "/data-api/faults")).body).toEqual([]);
});

test("a create whose pass then failed is attempted again under the same key: the cloud finds what it has", async () => {
  await dataApiFault({ kind: "error", match: APPLY, code: "22000" });
  const { id } = await createVolume(stack, "refused-once");
  await untilStatus(stack, "refused-once", "active");
  await expectRest(stack, "refused-once");
  expect(eventsOf(stack, "worker-volumes", "item.failed", id)).toMatchObject([{ attempt: 1 }]);
  const log = await cloudLog(stack, "refused-once");
  expect(log.map((line) => line.outcome)).toEqual(["created", "existing"]);
  expect(new Set(log.map((line) => line.key)).size).toBe(1);
  expect(directoriesOf(stack, "refused-once")).toBe(1);
});

test("a process killed between its create and its apply: the next attempt has the same key", async () => {
  await cloudFault(stack, { match: "killed-once", kind: "killCaller" });
  const { id } = await createVolume(stack, "killed-once");
  await untilStatus(stack, "killed-once", "active", { timeoutMs: 150_000 });
  await expectRest(stack, "killed-once");
  const log = await cloudLog(stack, "killed-once");
  const [{ after }] = await stack.sql(
    "select extract(epoch from claimed_at - $2::timestamptz)::float8 as after from millrace.items where item_id = $1",
    [id, log[0]!.at],
  );
  expect(after).toBeLessThanOrEqual(TAKEN_OVER_SECONDS);
  expect(log.map((line) => line.outcome)).toEqual(["killed", "existing"]);
  expect(new Set(log.map((line) => line.key)).size).toBe(1);
  expect(directoriesOf(stack, "killed-once")).toBe(1);
  expect(eventsOf(stack, "worker-volumes", "item.applied", id)).toMatchObject([{ attempt: 2 }]);
});
