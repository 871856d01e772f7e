import { sql } from "kysely";
import { describe, expect, test } from "vitest";
import { type Intent, type PipelineColumns, pipelinesFor, registry } from "../../../lib/index.ts";

interface Box extends PipelineColumns {
  id: string;
  status: string;
  size: number;
  wanted: Intent<boolean>;
  ends_at: Date | null;
}
const { state, pipeline } = pipelinesFor<{ boxes: Box }, object>().on("boxes");
const stateWith = (ready: Parameters<typeof state>[0]["ready"]) => state({ ready, process: ({ apply }) => apply({}) });
const readyOf = (ready: Parameters<typeof state>[0]["ready"]) =>
  pipeline("p", { s: stateWith(ready) }).states[0]!.ready;

describe("a readiness becomes text with its values inlined", () => {
  test("quotes are doubled, columns are aliased, names are listed", () => {
    expect(readyOf((eb) => eb.and([eb("status", "=", "it's; drop"), eb("size", "in", [1, 2])]))).toEqual({
      text: `("status" = 'it''s; drop' and "size" in (1, 2))`,
      aliased: `("t"."status" = 'it''s; drop' and "t"."size" in (1, 2))`,
      names: ["size", "status"],
    });
  });
  test("a named table gives way to the alias", () => {
    expect(readyOf((eb) => eb("boxes.status", "=", "x")).aliased).toBe(`"t"."status" = 'x'`);
  });
  test("null, booleans, dates and raw fragments", () => {
    expect(readyOf((eb) => eb("ends_at", "is", null)).text).toBe(`"ends_at" is null`);
    expect(readyOf((eb) => eb("wanted", "=", true)).text).toBe(`"wanted" = true`);
    expect(readyOf((eb) => eb("ends_at", "<", new Date(0))).text).toBe(`"ends_at" < '1970-01-01T00:00:00.000Z'`);
    const raw = readyOf(() => sql<boolean>`lower(status) = ${"a"}`);
    expect(raw.text).toBe("lower(status) = 'a'");
    expect(raw.names).toContain("status");
  });
  test.each(["now()", "current_timestamp", "random() > 0.5", "CLOCK_TIMESTAMP()"])("%s is refused", (text) => {
    expect(() => readyOf(() => sql<boolean>`ends_at < ${sql.raw(text)}`)).toThrow(
      expect.objectContaining({ code: "READY_NOT_IMMUTABLE", message: expect.stringContaining("p.s") }),
    );
  });
  test("the same word inside a value is no call", () => {
    expect(readyOf((eb) => eb("status", "=", "now()")).text).toBe(`"status" = 'now()'`);
  });
  test("a condition without columns is refused", () => {
    expect(() => readyOf((eb) => eb.lit(true))).toThrow(expect.objectContaining({ code: "READY_EMPTY" }));
  });
});

describe("a pipeline", () => {
  const s = stateWith((eb) => eb("status", "=", "a"));
  test.each(["", "Volumes", "a:b", "a b", "1a", `a${"b".repeat(63)}`])("is not called %j", (name) => {
    expect(() => pipeline(name, { s })).toThrow(expect.objectContaining({ code: "PIPELINE_NAME" }));
  });
  test("has states", () => expect(() => pipeline("p", {})).toThrow(expect.objectContaining({ code: "NO_STATES" })));
  test.each([0, -1, Number.NaN])("is not processed every %d seconds", (everySeconds) => {
    const bad = state({ ready: (eb) => eb("status", "=", "a"), everySeconds, process: ({ apply }) => apply({}) });
    expect(() => pipeline("p", { bad })).toThrow(
      expect.objectContaining({ code: "OPTION", message: expect.stringContaining("p.bad: everySeconds") }),
    );
  });
  test("process runs on plain data", async () => {
    const grow = state({
      ready: (eb) => eb("status", "=", "a"),
      process: ({ row, apply, retry }) => (row.size > 1 ? retry("too large") : apply({ set: { size: 2 } })),
    });
    const snapshot = {
      now: new Date(0),
      related: {},
      extra: undefined,
      attempt: 1,
      prevLockExpired: false,
      key: "k",
      signal: new AbortController().signal,
    };
    const row = { size: 1 } as never;
    expect(await grow.process({ ...snapshot, row }, {})).toEqual({ kind: "apply", changes: { set: { size: 2 } } });
    expect(await grow.process({ ...snapshot, row: { size: 2 } as never }, {})).toEqual({
      kind: "retry",
      reason: "too large",
    });
  });
});

describe("a registry", () => {
  const a = pipeline("a", { s: stateWith((eb) => eb("status", "=", "a")) });
  const b = pipeline("b", { s: stateWith((eb) => eb("size", ">", 1)) }, { workers: 20 });
  const both = registry([b, a]);
  test("finds by name and table", () => {
    expect(both.get("a")).toBe(a);
    expect(both.of("boxes")).toEqual([b, a]);
    expect(both.of("elsewhere")).toEqual([]);
    expect(both.tables).toEqual(["boxes"]);
    expect(both.readyNames("boxes")).toEqual(["size", "status"]);
  });
  test("refuses two of one name, and names what it has when asked for another", () => {
    expect(() => registry([a, a])).toThrow(expect.objectContaining({ code: "PIPELINE_TWICE" }));
    expect(() => both.get("c")).toThrow("no pipeline is called c; registered: b, a");
  });
  test("tells the infrastructure what to deploy", () => {
    expect(both.manifest.pipelines[0]).toEqual({
      name: "b",
      table: "boxes",
      workers: 20,
      batchSize: 10,
      maxConcurrency: 2,
      processTimeoutSeconds: 60,
      functionTimeoutSeconds: 90,
    });
  });
});
