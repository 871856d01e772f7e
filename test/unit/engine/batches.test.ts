import { describe, expect, test } from "vitest";
import { inBatch, type Outcome } from "../../../lib/engine/batches.ts";
import { MillraceError } from "../../../lib/index.ts";
import { settled } from "../../support/driven-clock.ts";
import { gate } from "../../support/gate.ts";

type Row = { readonly id: string };
type Answer = readonly Row[] | Error | Promise<readonly Row[]>;

const failed = (sqlState: string | undefined, unanswered = false) =>
  new MillraceError(sqlState === "MR001" ? "ROW_FENCED" : "STATEMENT_FAILED", {
    statement: "apply",
    message: "no",
    sqlState,
    unanswered,
  });
const unanswered = () => new MillraceError("DATABASE_UNANSWERED", { statement: "apply" });

/** Runs a batch against answers that a test makes; notes who was asked and told what. */
async function run(inputs: readonly string[], answerTo: (some: readonly string[]) => Answer, lost = false) {
  const calls: { readonly some: readonly string[]; readonly patient: boolean }[] = [];
  const settles: (readonly string[])[] = [];
  const outcomes = new Map<string, Outcome<Row>>();
  const done = inBatch<string, Row>(inputs, {
    run: async (some, patient) => {
      calls.push({ some, patient });
      const answer = await answerTo(some);
      if (answer instanceof Error) throw answer;
      return { rows: answer, unanswered: lost };
    },
    rowOf: (id, rows) => rows.find((r) => r.id === id),
    settle: async (some, got) => {
      settles.push(some);
      for (const [n, id] of some.entries()) outcomes.set(id, got[n]!);
    },
  });
  return { calls, settles, outcomes, done };
}

const rowsOf = (some: readonly string[]) => some.map((id) => ({ id }));

test("nothing to do is no statement", async () => {
  const { calls, settles, done } = await run([], rowsOf);
  await done;
  expect([calls, settles]).toEqual([[], []]);
});

test("a batch is one statement, whatever the order of its answer", async () => {
  const { calls, settles, outcomes, done } = await run(["a", "b"], () => [{ id: "b" }, { id: "a" }]);
  await done;
  expect(calls).toEqual([{ some: ["a", "b"], patient: false }]);
  expect(settles).toEqual([["a", "b"]]);
  expect(outcomes.get("b")).toEqual({ row: { id: "b" }, unanswered: false });
});

test("a single one waits for locks", async () => {
  const { calls, done } = await run(["a"], rowsOf);
  await done;
  expect(calls).toEqual([{ some: ["a"], patient: true }]);
});

test("an item that the answer leaves out has an error of its own", async () => {
  const { outcomes, done } = await run(["a", "b"], () => [{ id: "b" }]);
  await done;
  expect(outcomes.get("a")).toMatchObject({ error: { code: "STATEMENT_FAILED" } });
  expect(outcomes.get("b")).toMatchObject({ row: { id: "b" } });
});

describe("a batch that one item stops", () => {
  test.each([
    ["a lock timeout", "55P03"],
    ["a value out of range", "22003"],
    ["a broken constraint", "23514"],
    ["a column that is not there", "42703"],
    ["a trigger that raises", "P0001"],
    ["a view that refuses it", "44000"],
    ["a fence that refuses it", "MR001"],
    ["an answer that is too large", undefined],
  ])("by %s is repeated one by one, patiently, and only the culprit fails", async (_, sqlState) => {
    const { calls, settles, outcomes, done } = await run(["a", "b", "c"], (some) =>
      some.includes("b") ? failed(sqlState) : rowsOf(some),
    );
    await done;
    expect(calls).toEqual([
      { some: ["a", "b", "c"], patient: false },
      { some: ["a"], patient: true },
      { some: ["b"], patient: true },
      { some: ["c"], patient: true },
    ]);
    expect(new Set(settles.flat())).toEqual(new Set(["a", "b", "c"]));
    expect(outcomes.get("a")).toEqual({ row: { id: "a" }, unanswered: false });
    expect(outcomes.get("b")).toMatchObject({ error: { details: { sqlState } } });
    expect(outcomes.get("c")).toEqual({ row: { id: "c" }, unanswered: false });
  });

  test("settles each as soon as its outcome is known", async () => {
    const slow = gate();
    const { outcomes, done } = await run(["a", "b"], (some) => {
      if (some.length > 1) return failed("55P03");
      return some[0] === "a" ? slow.pass().then(() => rowsOf(some)) : rowsOf(some);
    });
    await settled();
    expect([...outcomes.keys()]).toEqual(["b"]);
    slow.open();
    await done;
    expect(outcomes.get("a")).toMatchObject({ row: { id: "a" } });
  });

  test("after an attempt without an answer: of each nobody knows whether it ran then", async () => {
    const { outcomes, done } = await run(["a", "b"], (some) =>
      some.length > 1 ? failed("55P03", true) : some[0] === "a" ? failed("23514") : rowsOf(some),
    );
    await done;
    expect(outcomes.get("a")).toMatchObject({ error: {}, unanswered: true });
    expect(outcomes.get("b")).toEqual({ row: { id: "b" }, unanswered: true });
  });
});

describe("an error of them all", () => {
  test.each<[string, Error, boolean]>([
    ["no answer", unanswered(), true],
    ["a statement timeout", failed("57014"), false],
    ["a refusal", new MillraceError("DATABASE_REFUSED", { statement: "apply", message: "no" }), false],
    ["a refusal after an attempt without an answer", new MillraceError("DATABASE_REFUSED", { unanswered: true }), true],
  ])("is not repeated one by one: %s", async (_, error, lost) => {
    const { calls, outcomes, done } = await run(["a", "b"], () => error);
    await done;
    expect(calls).toHaveLength(1);
    expect([...outcomes.values()]).toEqual([
      { error, unanswered: lost },
      { error, unanswered: lost },
    ]);
  });

  test("a single one hears of its own", async () => {
    const error = failed("23514");
    const { outcomes, done } = await run(["a"], () => error);
    await done;
    expect(outcomes.get("a")).toEqual({ error, unanswered: false });
  });

  test("an exception of ours keeps its cause", async () => {
    const cause = new TypeError("BigInt");
    const { outcomes, done } = await run(["a"], () => cause);
    await done;
    expect(outcomes.get("a")).toMatchObject({ error: { code: "STATEMENT_FAILED", cause } });
  });
});

test("an answer after an attempt without one says so of every item", async () => {
  const { outcomes, done } = await run(["a", "b"], (some) => rowsOf(some).slice(1), true);
  await done;
  expect([...outcomes.values()].map((o) => o.unanswered)).toEqual([true, true]);
});
