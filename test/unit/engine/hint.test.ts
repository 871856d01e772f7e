import { describe, expect, test } from "vitest";
import { hintBody, hinted, parseHint, sendHints, sendWakeup } from "../../../lib/engine/hint.ts";
import { type PipelineColumns, pipelinesFor, registry } from "../../../lib/index.ts";
import { drivenClock } from "../../support/driven-clock.ts";

interface Box extends PipelineColumns {
  id: string;
  status: string;
}
const { on } = pipelinesFor<{ boxes: Box; lids: Box }, unknown>();
const boxes = on("boxes");
const lids = on("lids");
const pack = boxes.state({ ready: (eb) => eb("status", "=", "a"), process: ({ apply }) => apply({}) });
const send = boxes.state({ ready: (eb) => eb("status", "=", "b"), process: ({ apply }) => apply({}) });
const close = lids.state({ ready: (eb) => eb("status", "=", "c"), process: ({ apply }) => apply({}) });
const all = registry<unknown>([
  boxes.pipeline("packing", { pack }),
  boxes.pipeline("sending", { send }),
  lids.pipeline("closing", { close }),
]);

const refusal = (reason: string) =>
  expect.objectContaining({ code: "HINT_MALFORMED", message: `this is no hint message: ${reason}` });

describe("a hint message", () => {
  test.each([
    [{ table: "boxes" }, '{"v":1,"table":"boxes"}'],
    [{ pipeline: "packing" }, '{"v":1,"pipeline":"packing"}'],
    [
      { pipeline: "packing", at: "2026-01-01T00:00:00.500Z" },
      '{"v":1,"pipeline":"packing","at":"2026-01-01T00:00:00.500Z"}',
    ],
  ])("%j goes out and comes in", (hint, body) => {
    expect(hintBody(hint)).toBe(body);
    expect(parseHint(body)).toEqual(hint);
  });

  const neither = "it names neither one pipeline nor one table";
  test.each([
    ["boxes", "the body is no JSON"],
    ["[]", "the body is no JSON object"],
    ['{"table":"boxes"}', "v is not 1"],
    ['{"v":2,"table":"boxes"}', "v is not 1"],
    ['{"v":1}', neither],
    ['{"v":1,"table":"boxes","pipeline":"packing"}', neither],
    ['{"v":{"toString":1}}', "v is not 1"],
    ['{"v":1,"table":"boxes","pipeline":null}', neither],
    ['{"v":1,"table":7}', "table is no name of one"],
    ['{"v":1,"table":"a\\u0000b"}', "table is no name of one"],
    ['{"v":1,"table":"\\ud800"}', "table is no name of one"],
    [`{"v":1,"table":"${"x".repeat(64)}"}`, "table is no name of one"],
    ['{"v":1,"pipeline":null}', "pipeline is no name of one"],
    ['{"v":1,"pipeline":"a b"}', "pipeline is no name of one"],
    ['{"v":1,"pipeline":"packing","at":"soon"}', "at is no time"],
    ['{"v":1,"pipeline":"packing","at":1767225600000}', "at is no time"],
  ])("%s is refused", (body, reason) => {
    expect(() => parseHint(body)).toThrow(refusal(reason));
  });
});

describe("the pipelines that a hint means", () => {
  test("are all of a table, or the one that it names", () => {
    expect(hinted(all, { table: "boxes" })).toEqual(["packing", "sending"]);
    expect(hinted(all, { pipeline: "closing" })).toEqual(["closing"]);
  });
  test("must be known", () => {
    expect(() => hinted(all, { table: "crates" })).toThrow(
      expect.objectContaining({ code: "TABLE_UNKNOWN", message: expect.stringContaining("crates") }),
    );
    expect(() => hinted(all, { pipeline: "boxes" })).toThrow(expect.objectContaining({ code: "PIPELINE_UNKNOWN" }));
  });
});

describe("sending", () => {
  function queue() {
    const calls: (readonly { body: string; delaySeconds: number }[])[] = [];
    return { calls, send: async (hints: (typeof calls)[number]) => void calls.push(hints) };
  }

  test("one hint a pipeline, all in one call, now", async () => {
    const hints = queue();
    await sendHints(hints, ["packing", "sending", "packing"]);
    expect(hints.calls).toEqual([
      [
        { body: '{"v":1,"pipeline":"packing"}', delaySeconds: 0 },
        { body: '{"v":1,"pipeline":"sending"}', delaySeconds: 0 },
      ],
    ]);
  });

  test("no hint is no call", async () => {
    const hints = queue();
    await sendHints(hints, []);
    expect(hints.calls).toEqual([]);
  });

  test.each([
    [0.4, 0, "2026-01-01T00:00:00.400Z"],
    [7.9, 7, "2026-01-01T00:00:07.900Z"],
    [900, 900, "2026-01-01T00:15:00.000Z"],
    [86_400, 900, "2026-01-02T00:00:00.000Z"],
    [-3, 0, "2025-12-31T23:59:57.000Z"],
  ])("a wake-up in %d s has a delay of %d whole seconds, and says when", async (seconds, delaySeconds, at) => {
    const hints = queue();
    await sendWakeup({ hints, clock: drivenClock() }, "packing", seconds);
    expect(hints.calls).toEqual([[{ body: `{"v":1,"pipeline":"packing","at":"${at}"}`, delaySeconds }]]);
  });
});
