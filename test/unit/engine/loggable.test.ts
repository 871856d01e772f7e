import { describe, expect, test } from "vitest";
import { loggable, passOf } from "../../../lib/engine/events.ts";
import { codeOf } from "../../../lib/engine/report-end.ts";
import { MillraceError } from "../../../lib/index.ts";

const TOKEN = "7d9f1c7e-54f2-4c43-8a0e-6f3b2a1c0d02";
const about = { pipeline: "boxes", id: "1", token: TOKEN };
const logged = { pipeline: "boxes", id: "1", pass: passOf(TOKEN) };

describe("what of an event goes into a log", () => {
  test("a token is told by what it names, and cannot be used", () => {
    expect(loggable("item.released", about)).toEqual(logged);
    expect(passOf(TOKEN)).toMatch(/^[0-9a-f]{12}$/);
    expect(TOKEN).not.toContain(passOf(TOKEN));
    expect(passOf(TOKEN.replace("7", "8"))).not.toBe(passOf(TOKEN));
  });

  test.each([
    [
      "item.failed",
      { code: "CLOUD_FAILED", error: "payload", retryInSeconds: 1 },
      { code: "CLOUD_FAILED", retryInSeconds: 1 },
    ],
    ["item.dead", { code: "TypeError", error: "payload" }, { code: "TypeError" }],
    ["item.retried", { attempt: 1, reason: "payload" }, { attempt: 1 }],
    ["item.stale", { phase: "apply", orphan: "payload" }, { phase: "apply" }],
    ["item.unknown", { phase: "apply", orphan: "payload" }, { phase: "apply" }],
  ] as const)("%s: no text of the application", (name, more, kept) => {
    expect(loggable(name, { ...about, ...more })).toEqual({ ...logged, ...kept });
  });

  test("an unknown name of a message is not repeated", () => {
    const payload = { code: "PIPELINE_UNKNOWN", error: "no pipeline is called payload", messageId: "7" };
    expect(loggable("message.unknown", payload)).toEqual({ code: "PIPELINE_UNKNOWN", messageId: "7" });
  });

  test("texts of our own stay", () => {
    expect(loggable("fetch.failed", { pipeline: "boxes", error: "why" })).toEqual({ pipeline: "boxes", error: "why" });
  });
});

test.each([
  [new MillraceError("RELATED_GONE", { ids: "payload" }), "RELATED_GONE"],
  [Object.assign(new Error("payload"), { code: "ECONNRESET" }), "ECONNRESET"],
  [Object.assign(new Error("payload"), { code: "pay load" }), "Error"],
  [new TypeError("payload"), "TypeError"],
  [Object.assign(new Error("x"), { name: "pay load" }), "object"],
  ["payload", "string"],
  [undefined, "undefined"],
])("%s is told by its code or class", (error, code) => {
  expect(codeOf(error)).toBe(code);
});
