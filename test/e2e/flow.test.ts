import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type LocalStack, startLocalStack } from "../support/stack.ts";
import { until } from "../support/until.ts";
import {
  cloudLog,
  createVolume,
  eventsOf,
  expectRest,
  statementCalls,
  untilGone,
  untilItem,
  untilStatus,
} from "../support/volumes.ts";

let stack: LocalStack;
beforeAll(async () => {
  stack = await startLocalStack();
});
afterAll(() => stack?.stop());

const workersTimesUpperFactor = 40;

test("a volume goes from submitted to active, and its directory is there once", async () => {
  const { id } = await createVolume(stack, "first");
  await untilStatus(stack, "first", "active");
  await expectRest(stack, "first");
  expect(await cloudLog(stack, "first")).toMatchObject([{ op: "createVolume", outcome: "created" }]);
  expect((await stack.api("GET", `/volumes/${id}`)).body).toMatchObject({
    status: "active",
    attempts: 0,
    lastError: null,
  });
});

test("1,000 rows by one insert, without a hint: each active, processed once, the queue never over its limit", async () => {
  await stack.sql("insert into volumes (name, size_gb) select 'bulk-' || n, 1 from generate_series(1, 1000) n");
  let most = 0;
  await until(
    async () => {
      const [row] = await stack.sql(
        `select (select count(*) from volumes where name like 'bulk-%' and status = 'active')::int as active,
           (select count(*) from millrace.items where finished_at is null and state in ('locked', 'queued'))::int as waiting`,
      );
      most = Math.max(most, row.waiting);
      return row.active === 1000;
    },
    { what: "1,000 active volumes", timeoutMs: 240_000, everyMs: 100 },
  );
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(workersTimesUpperFactor);
  await expectRest(stack, "bulk-");
  const directory = join(stack.stateDir, "cloud", "volumes");
  const names = readdirSync(directory)
    .map((id) => JSON.parse(readFileSync(join(directory, id, "volume.json"), "utf8")).name as string)
    .filter((name) => name.startsWith("bulk-"));
  expect([names.length, new Set(names).size]).toEqual([1000, 1000]);
  const applied = eventsOf(stack, "worker-volumes", "item.applied").map((e) => e.id);
  expect(applied.length).toBe(new Set(applied).size);
  const received = new Map<string, number>();
  for (const e of stack.queueLog())
    if (e.op === "receive" && e.queue === "volumes") received.set(e.messageId!, e.count ?? 0);
  expect([...received.values()].every((count) => count === 1)).toBe(true);
});

test("a volume that always fails backs off exponentially while others flow, and says so", async () => {
  await stack.control("POST", "/cloud/faults", { match: "broken", kind: "fail", count: 1000 });
  const { id } = await createVolume(stack, "broken");
  for (const attempts of [1, 2, 3]) await untilItem(stack, id, (i) => i.attempts === attempts, `${attempts} attempts`);
  await createVolume(stack, "beside");
  await untilStatus(stack, "beside", "active");
  const failures = eventsOf(stack, "worker-volumes", "item.failed", id);
  for (const [n, { retryInSeconds }] of failures.slice(0, 3).entries()) {
    expect(retryInSeconds).toBeGreaterThanOrEqual(0.79 * 2 ** n);
    expect(retryInSeconds).toBeLessThanOrEqual(1.21 * 2 ** n);
  }
  const shown = (await stack.api("GET", `/volumes/${id}`)).body;
  expect(shown).toMatchObject({
    status: "submitted",
    lastError: expect.stringMatching(/./),
    nextTryAt: expect.any(String),
  });
  expect(shown.attempts).toBeGreaterThanOrEqual(3);
});

test("deleting acts at once: a volume that backs off, one that is free, one whose pass runs", async () => {
  const [broken] = await stack.sql("select id from volumes where name = 'broken'");
  await untilItem(stack, broken.id, (i) => i.attempts >= 4 && i.state === "failed", "a long back-off");
  await stack.control("DELETE", "/cloud/faults");
  expect((await stack.api("DELETE", `/volumes/${broken.id}`)).status).toBe(202);
  await untilGone(stack, broken.id, 6_000);

  const [free] = await stack.sql("select id from volumes where name = 'beside'");
  expect((await stack.api("DELETE", `/volumes/${free.id}`)).status).toBe(202);
  await untilGone(stack, free.id, 8_000);

  await stack.control("POST", "/cloud/faults", { match: "slow-one", kind: "delay", seconds: 4, count: 1 });
  const { id } = await createVolume(stack, "slow-one");
  await untilItem(stack, id, (i) => i.state === "processing", "processing");
  expect((await stack.api("DELETE", `/volumes/${id}`)).status).toBe(202);
  await until(() => eventsOf(stack, "worker-volumes", "item.applied", id).length > 0, {
    what: "the running pass to end",
    timeoutMs: 20_000,
  });
  await untilGone(stack, id, 8_000);
  expect((await cloudLog(stack, "slow-one")).map((l) => l.outcome)).toEqual(["created", "deleted"]);
});

test("plain SQL that makes a row ready is acted on within one schedule period", async () => {
  const { id } = await createVolume(stack, "by-sql");
  await untilStatus(stack, "by-sql", "active");
  await stack.sql("update volumes set to_be_deleted = true where id = $1", [id]);
  await untilGone(stack, id, 75_000);
});

test("nobody asks the database more than the statements say", async () => {
  const counted = (await stack.control("GET", "/data-api/stats")).body.statements as Record<string, number>;
  for (const step of ["fetch volumes", "claim volumes", "apply volumes"]) {
    expect(await statementCalls(stack, step)).toBe(counted[`millrace:${step}`]);
  }
});
