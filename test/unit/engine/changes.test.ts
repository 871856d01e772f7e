import { describe, expect, test } from "vitest";
import { ENGINE_COLUMNS } from "../../../lib/define/columns.ts";
import { type AnyChanges, toApplyItem, toInsertGroups } from "../../../lib/engine/changes.ts";
import { NOW, type PipelineColumns, pipelinesFor } from "../../../lib/index.ts";

interface Box extends PipelineColumns {
  id: string;
  status: string;
}
const { state, pipeline } = pipelinesFor<{ boxes: Box }, unknown>().on("boxes");
const packed = state({
  ready: (eb) => eb("status", "=", "a"),
  everySeconds: 20,
  process: ({ apply }) => apply({}),
});
const boxes = pipeline("boxes", { packed });
const holder = { id: "i", token: "t", seen: "2026-01-01 00:00:00.000001+00", state: boxes.states[0]! };
const itemOf = (changes: AnyChanges, random = 0.5) => toApplyItem(boxes, holder, changes, random);

describe("an answer as the apply statement takes it", () => {
  test("an empty one", () => {
    expect(itemOf({})).toEqual({
      locks: [],
      id: "i",
      token: "t",
      set: {},
      nows: [],
      delete: false,
      due: 20,
      due_by_default: true,
      seen: holder.seen,
    });
  });

  test.each(ENGINE_COLUMNS)("%s is the engine's", (column) => {
    expect(() => itemOf({ set: { [column]: NOW } })).toThrow(
      expect.objectContaining({
        code: "PATCH_COLUMN",
        message: `boxes may not write ${column} of boxes: it belongs to the engine`,
      }),
    );
  });

  test("the instant of the statement goes by name, what is undefined stays as it is, null is a value", () => {
    const { set, nows } = itemOf({ set: { ended_at: NOW, status: "b", note: undefined, name: null } });
    expect(nows).toEqual(["ended_at"]);
    expect(set).toEqual({ status: "b", name: null });
  });

  test.each<[string, unknown, unknown]>([
    ["a date", new Date("2026-02-03T04:05:06.789Z"), "2026-02-03T04:05:06.789Z"],
    ["bytes", new Uint8Array([0, 255, 16]), "\\x00ff10"],
    ["a buffer", Buffer.from("hi"), "\\x6869"],
    ["a bigint", 9_223_372_036_854_775_807n, "9223372036854775807"],
    ["NaN", Number.NaN, "NaN"],
    ["infinity", Number.POSITIVE_INFINITY, "Infinity"],
    ["minus infinity", Number.NEGATIVE_INFINITY, "-Infinity"],
    ["a number", 1.5, 1.5],
    ["a list", ["a", null], ["a", null]],
    ["an object", { a: [1] }, { a: [1] }],
    ["false", false, false],
  ])("%s as JSON", (_, value, json) => {
    expect(itemOf({ set: { value } }).set).toEqual({ value: json });
  });

  test.each([
    ["function", () => 1],
    ["symbol", Symbol("now")],
  ])("a %s is refused", (type, value) => {
    expect(() => itemOf({ set: { value } })).toThrow(
      expect.objectContaining({ code: "VALUE_UNSUPPORTED", message: expect.stringContaining(type) }),
    );
  });

  test("a deletion", () => expect(itemOf({ delete: true })).toMatchObject({ delete: true, set: {} }));
});

describe("when the row is due again", () => {
  test.each([
    [0, 18],
    [0.5, 20],
    [0.999_999, 22],
  ])("by default after the state's seconds, ±10 %: random %d gives %d s", (random, due) => {
    const item = itemOf({}, random);
    expect(item.due).toBeCloseTo(due, 3);
    expect(item.due_by_default).toBe(true);
  });

  test.each([
    ["now" as const, 0],
    [0, 0],
    [7.25, 7.25],
    [null, null],
  ])("%s, without jitter", (due, seconds) => {
    expect(itemOf({ due }, 0)).toMatchObject({ due: seconds, due_by_default: false });
  });

  test.each([-1, Number.NaN, Number.POSITIVE_INFINITY, "tomorrow", new Date()])("%s is refused", (due) => {
    expect(() => itemOf({ due: due as never })).toThrow(
      expect.objectContaining({
        code: "OPTION",
        message: `boxes: due is ${due}, but must be seconds from 0, "now" or null`,
      }),
    );
  });
});

describe("new rows", () => {
  const of = (id: string, insert: Record<string, readonly object[]>) => ({
    id,
    token: `token of ${id}`,
    changes: { insert } as AnyChanges,
  });
  const row = (item: string, values: object, nows: string[] = []) => ({
    item,
    token: `token of ${item}`,
    row: values,
    nows,
  });

  test("none", () => expect(toInsertGroups([{ id: "a", token: "t", changes: {} }])).toEqual([]));

  test("of one table that name the same columns go together, in whatever order they name them", () => {
    const groups = toInsertGroups([
      of("a", { logs: [{ message: "1", at: NOW }] }),
      of("b", {
        logs: [
          { at: NOW, message: "2" },
          { at: new Date(0), message: "3" },
        ],
      }),
    ]);
    expect(groups).toEqual([
      {
        table: "logs",
        columns: ["at", "message"],
        rows: [
          row("a", { message: "1" }, ["at"]),
          row("b", { message: "2" }, ["at"]),
          row("b", { message: "3", at: "1970-01-01T00:00:00.000Z" }),
        ],
      },
    ]);
  });

  test("that name other columns go apart, so that absent ones get their defaults", () => {
    const groups = toInsertGroups([of("a", { logs: [{ message: "1" }, { message: "2", level: undefined }, {}] })]);
    expect(groups.map((g) => [g.columns, g.rows.map((r) => r.row)])).toEqual([
      [["message"], [{ message: "1" }, { message: "2" }]],
      [[], [{}]],
    ]);
  });

  test("tables come by name: the order in which rows are locked everywhere", () => {
    const groups = toInsertGroups([of("a", { logs: [{}], boxes: [{}] }), of("b", { apples: [{}] })]);
    expect(groups.map((g) => g.table)).toEqual(["apples", "boxes", "logs"]);
  });

  test("with a value that cannot travel are refused", () => {
    expect(() => toInsertGroups([of("a", { logs: [{ message: () => 1 }] })])).toThrow(
      expect.objectContaining({ code: "VALUE_UNSUPPORTED" }),
    );
  });
});
