import { describe, expect, test } from "vitest";
import type { Held } from "../../../lib/engine/claim.ts";
import { reportEnd, textOf } from "../../../lib/engine/report-end.ts";
import { MillraceError, type PipelineColumns, pipelinesFor, recordedEvents } from "../../../lib/index.ts";
import type { EndRow } from "../../../lib/sql/end.ts";

interface Box extends PipelineColumns {
  id: string;
  status: string;
}
const { state, pipeline } = pipelinesFor<{ boxes: Box }, unknown>().on("boxes");
const s = state({ ready: (eb) => eb("status", "=", "a"), process: ({ apply }) => apply({}) });
const boxes = pipeline("boxes", { s });
const about = { pipeline: "boxes", id: "i", token: "t" };
const held = { id: "i", token: "t", attempt: 3 } as Held;

describe("an error as it is kept", () => {
  test.each<[unknown, string]>([
    [new Error("boom"), "boom"],
    [new MillraceError("PROCESS_TIMEOUT", { seconds: 60 }), "PROCESS_TIMEOUT: processing took longer than 60 s"],
    ["text", "text"],
    [undefined, "undefined"],
    [{ toString: () => "odd" }, "odd"],
  ])("%s", (error, text) => expect(textOf(error)).toBe(text));

  test("2000 characters at most, also after the code", () => {
    expect(textOf(new Error("x".repeat(3000)))).toBe("x".repeat(2000));
    expect(textOf(new MillraceError("PIPELINE_NAME", { name: "y".repeat(3000) }))).toHaveLength(2000);
  });

  test("is text that PostgreSQL takes: no NUL, no half of a character", () => {
    expect(textOf(new Error("a\0b"))).toBe("a�b");
    expect(textOf(new Error("a\ud83db"))).toBe("a�b");
    expect(textOf(new Error(`${"x".repeat(1999)}😀`))).toBe(`${"x".repeat(1999)}�`);
  });

  test("an error that cannot be told is told all the same", () => {
    const nasty = Object.create(null) as object;
    expect(textOf(nasty)).toBe("an error without a text");
    expect(textOf(Object.assign(new Error(), { message: undefined }))).toBe("undefined");
  });
});

describe("the event of an ending", () => {
  const row = (more: Partial<EndRow>): EndRow => ({
    id: "i",
    token: "t",
    result: "ended",
    attempts: 3,
    state: "failed",
    due_in: 4,
    hint: null,
    hints: "[]",
    wake_in: null,
    drained: false,
    ...more,
  });
  test.each<["fail" | "reset" | "release", Partial<EndRow>, string, object]>([
    ["fail", { result: "stale" }, "item.stale", { phase: "fail" }],
    ["reset", { result: "already" }, "item.already", { phase: "reset" }],
    ["release", { state: "released" }, "item.released", {}],
    ["reset", { state: "retried" }, "item.retried", { attempt: 3, reason: "busy" }],
    ["fail", {}, "item.failed", { attempt: 3, code: "Error", error: "boom", retryInSeconds: 4 }],
    ["fail", { state: "dead", due_in: null }, "item.dead", { attempt: 3, code: "Error", error: "boom" }],
  ])("%s %j is %s", (step, more, name, payload) => {
    const events = recordedEvents();
    reportEnd(boxes, { held, reason: "busy", error: new Error("boom") }, step, row(more), { events } as never);
    expect(events.all).toEqual([{ name, payload: { ...about, ...payload } }]);
  });
});
