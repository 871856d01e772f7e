import { expect, test } from "vitest";
import type { EventJson } from "../../../functions/api/json.ts";
import { millrace, problem, stackOf } from "./stack-of-answers.ts";

const event = (n: number): EventJson => ({
  id: `e${n}`,
  at: new Date(Date.UTC(2026, 10, 30, 11, 0, n)).toISOString(),
  kind: "job",
  subjectId: "s1",
  message: `Event ${n}`,
});
const page = (numbers: readonly number[], nextCursor: string | null = null) => ({
  status: 200,
  body: { items: numbers.map(event), nextCursor },
});
const told = (stdout: string) => [...stdout.matchAll(/Event (\d+)/g)].map(([, n]) => Number(n));

test("a page is printed newest first; --json prints what the API answered", async () => {
  const { dir } = await stackOf({ "GET /events?subjectId=s1&limit=2": page([2, 1], "c") });
  const args = ["events", "--subject", "s1", "--limit", "2", "--state-dir", dir];
  const { exit, stdout } = await millrace(args);
  expect([exit, told(stdout)]).toEqual([0, [2, 1]]);
  expect(stdout).toContain("more: --cursor c\n");
  expect(JSON.parse((await millrace([...args, "--json"])).stdout)).toEqual({
    items: [event(2), event(1)],
    nextCursor: "c",
  });
});

test("followed, every event is told once, oldest first, until Ctrl-C; also one that appears between older ones", async () => {
  const { dir } = await stackOf({
    "GET /events?limit=3": page([4, 3, 1], "c"),
    "GET /events?limit=50": [page([4, 3, 1]), page([6, 5, 4, 3, 2, 1])],
  });
  const { exit, stdout, stderr } = await millrace(["events", "--follow", "--limit", "3", "--state-dir", dir], {
    interruptAt: 4,
  });
  expect([exit, told(stdout), stderr]).toEqual([0, [1, 3, 4, 2, 5, 6], ""]);
});

test("followed, more than a page of new ones is read to the last that was shown", async () => {
  const numbers = (from: number, to: number) => Array.from({ length: from - to + 1 }, (_, n) => from - n);
  const { dir } = await stackOf({
    "GET /events?limit=20": page([1], "c"),
    "GET /events?limit=50": page(numbers(80, 31), "c1"),
    "GET /events?limit=50&cursor=c1": page(numbers(30, 1), "c2"),
  });
  const { stdout } = await millrace(["events", "--follow", "--state-dir", dir], { interruptAt: 3 });
  expect(told(stdout)).toEqual(numbers(80, 1).reverse());
});

test.each([
  ["is never told", page([9, 8, 7, 6, 5, 4, 3, 2, 1], "c2")],
  ["neither when the oldest that was told is gone meanwhile", page([9, 8, 7, 5, 4, 3, 2, 1], "c2")],
])("followed, what is older than the first page %s", async (_, second) => {
  const { dir } = await stackOf({
    "GET /events?limit=3": page([8, 7, 6], "c"),
    "GET /events?limit=50": [second, page([10, 9, 8, 7, 5, 4], "c3")],
  });
  const { stdout } = await millrace(["events", "--follow", "--limit", "3", "--state-dir", dir], { interruptAt: 4 });
  expect(told(stdout)).toEqual([6, 7, 8, 9, 10]);
});

test("followed with --json, each line is one event", async () => {
  const { dir } = await stackOf({
    "GET /events?subjectId=s1&limit=20": page([2, 1]),
    "GET /events?subjectId=s1&limit=50": page([3, 2, 1]),
  });
  const { stdout } = await millrace(["events", "--follow", "--subject", "s1", "--json", "--state-dir", dir], {
    interruptAt: 2,
  });
  expect(
    stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line)),
  ).toEqual([event(1), event(2), event(3)]);
});

test("an error ends it", async () => {
  const { dir } = await stackOf({ "GET /events?limit=20": problem(400, "QUERY_INVALID", "no") });
  expect(await millrace(["events", "--follow", "--state-dir", dir])).toMatchObject({ exit: 2, stdout: "" });
});
