import { expect, test } from "vitest";
import { campaign } from "./campaign.ts";
import { withoutTokenGuard } from "./mutate.ts";
import { Pool, withServer } from "./pool.ts";

const SEEDS = 100;
const WORKERS = 2;

const FAULTS = [
  "503",
  "answer lost",
  "call lost",
  "database fails over",
  "database's clock jumps",
  "event loop blocked",
  "heartbeater away",
  "lock timeout",
  "message delivered again",
  "message late",
  "message lost",
  "message never",
  "message twice",
  "new code beside old code",
  "process frozen",
  "process killed",
  "process threw",
  "process's clock jumps",
  "resuming",
  "schema changed",
  "send failed in part",
  "send lost",
  "send refused",
  "send unanswered",
  "throttled",
  "transaction aborted",
  "write past a lock, refused",
];

test("nothing that can go wrong breaks an invariant, and everything is done when the faults stop", async () => {
  const found = await withServer(async (server) => {
    await using pool = await Pool.start(server, WORKERS);
    return await campaign(pool, WORKERS, { from: 1, seeds: SEEDS, mostFailures: 1 });
  });
  expect(found.failed.flatMap(({ seed, violations }) => violations.map((what) => `seed ${seed}: ${what}`))).toEqual([]);
  expect(found.seeds).toBe(SEEDS);
  // a simulation in which nothing happens finds nothing
  expect(found.accepted).toBeGreaterThan(20 * SEEDS);
  expect([...found.faults.keys()].sort()).toEqual([...FAULTS].sort());
});

test("a seed decides everything: the same seed is the same story, from another process too, and so is its list of choices", async () => {
  const seed = 7;
  const stories = await withServer(async (server) => {
    await using pool = await Pool.start(server, WORKERS);
    // two at a time: one in each process, and again in one that has made a run
    const [first, second] = await Promise.all([pool.run({ seed, tell: true }), pool.run({ seed, tell: true })]);
    const again = await pool.run({ seed, tell: true });
    const listed = await pool.run({ seed, choices: first.choices, tell: true });
    return [first, second, again, listed].map(({ story }) => story);
  });
  const [story, ...others] = stories;
  expect(story!.length).toBeGreaterThan(100);
  for (const other of others) expect(other).toEqual(story);
});

test("a missing token guard is noticed", async () => {
  const outcome = await withServer((server) => withoutTokenGuard(server, WORKERS, new AbortController().signal));
  expect(outcome).toMatchObject({ kind: "caught", by: expect.stringMatching(/^seed \d+: writes: /) });
});
