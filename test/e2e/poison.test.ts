import { afterAll, beforeAll, expect, test } from "vitest";
import { type LocalStack, startLocalStack } from "../support/stack.ts";
import { until } from "../support/until.ts";
import {
  cloudFault,
  cloudLog,
  directoriesOf,
  eventsOf,
  expectRest,
  itemOf,
  untilGone,
  untilItem,
  untilStatus,
} from "../support/volumes.ts";

let stack: LocalStack;
beforeAll(async () => {
  stack = await startLocalStack();
});
afterAll(() => stack?.stop());

const MOST_ATTEMPTS = 5;
/** Of the protocol: a death is noticed within 45 s; between deaths the row backs off 2, 4 and 8 s. */
const DEAD_MS = MOST_ATTEMPTS * 45_000 + 20_000;
/** On a loaded machine everything that is not a wait of the protocol takes longer. */
const SLACK_MS = 200_000;

test("a row that kills its process every time takes its batch-mates along once, backs off, and ends dead", {
  timeout: DEAD_MS + 2 * SLACK_MS,
}, async () => {
  await stack.control("POST", "/functions/worker-volumes/stop");
  await cloudFault(stack, { match: "poison", kind: "killCaller", count: 1000 });
  await stack.sql(
    "insert into volumes (name, size_gb) select case n when 5 then 'poison' else 'mate-' || n end, 1 from generate_series(1, 10) n",
  );
  expect((await stack.api("POST", "/hints", { table: "volumes" })).status).toBe(202);
  const queued = () => stack.sql("select 1 from millrace.items where state = 'queued'");
  await until(async () => (await queued()).length === 10, { what: "ten queued", timeoutMs: 60_000 });
  const [{ id }] = await stack.sql("select id from volumes where name = 'poison'");
  await stack.control("POST", "/functions/worker-volumes/start");

  const backOffs = new Map<number, number>();
  await until(
    async () => {
      const item = await itemOf(stack, id);
      if (item.state === "failed") {
        const [row] = await stack.sql(
          "select extract(epoch from due_at - last_processed_at)::float8 as seconds from volumes where id = $1 and lock_token is null",
          [id],
        );
        if (row) backOffs.set(item.attempts, row.seconds);
      }
      return item.state === "dead";
    },
    { what: "the poison row to be dead", timeoutMs: DEAD_MS + SLACK_MS, everyMs: 50 },
  );

  const claimed = eventsOf(stack, "worker-volumes", "item.claimed");
  const first = claimed.filter((e) => e.attempt === 1);
  expect(new Set(first.slice(0, 10).map((e) => e.function_request_id)).size).toBe(1);
  expect(claimed.filter((e) => e.id === id).map((e) => e.attempt)).toEqual([1, 2, 3, 4, 5]);
  expect(eventsOf(stack, "fetcher", "item.lost", id).map(({ attempts, dead }) => [attempts, dead])).toEqual([
    [1, false],
    [2, false],
    [3, false],
    [4, false],
    [5, true],
  ]);
  expect([...backOffs.keys()]).toEqual([2, 3, 4]);
  for (const [attempts, seconds] of backOffs) {
    expect(seconds).toBeGreaterThanOrEqual(0.79 * 2 ** (attempts - 1));
    expect(seconds).toBeLessThanOrEqual(1.21 * 2 ** (attempts - 1));
  }
  expect((await stack.api("GET", `/volumes/${id}`)).body).toMatchObject({
    status: "failed",
    attempts: MOST_ATTEMPTS,
    lastError: "worker lost",
    nextTryAt: null,
    lockOwner: null,
  });
  const log = await cloudLog(stack, "poison");
  expect(log.map((line) => line.outcome)).toEqual(Array.from({ length: MOST_ATTEMPTS }, () => "killed"));
  expect(new Set(log.map((line) => line.key)).size).toBe(1);
  expect(directoriesOf(stack, "poison")).toBe(1);
});

test("its batch-mates were applied, none of them dead, each taken along once at most", async () => {
  await untilStatus(stack, "mate-", "active", { count: 9, timeoutMs: 120_000 });
  await expectRest(stack, "mate-");
  const rows = await stack.sql(
    "select v.id, v.name, i.state, i.attempts from volumes v join millrace.items i on i.item_id = v.id where v.name like 'mate-%'",
  );
  for (const { id, name, state, attempts } of rows) {
    expect([name, state, attempts]).toEqual([name, "applied", 0]);
    expect(eventsOf(stack, "fetcher", "item.lost", id).length).toBeLessThanOrEqual(1);
    expect(directoriesOf(stack, name)).toBe(1);
  }
  const applied = eventsOf(stack, "worker-volumes", "item.applied");
  // a process that was killed right after an apply has not told of it
  const told = applied.filter((e) => rows.some(({ id }) => id === e.id));
  expect(told.length).toBeGreaterThan(0);
  const after = Math.max(...told.map((e) => Date.parse(e.timestamp)));
  const begun = Date.parse(eventsOf(stack, "worker-volumes", "item.claimed")[0].timestamp);
  console.log(`the last batch-mate was applied ${((after - begun) / 1000).toFixed(1)} s after the first claim`);
});

test("asked for again, the dead row is acted on", async () => {
  const [{ id }] = await stack.sql("select id from volumes where name = 'poison'");
  await untilItem(stack, id, (i) => i.state === "dead", "dead");
  await stack.control("DELETE", "/cloud/faults");
  expect((await stack.api("DELETE", `/volumes/${id}`)).status).toBe(202);
  await untilGone(stack, id, 60_000);
  expect((await cloudLog(stack, "poison")).at(-1)?.outcome).toBe("deleted");
  expect(directoriesOf(stack, "poison")).toBe(0);
});
