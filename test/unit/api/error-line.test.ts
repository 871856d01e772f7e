import { expect, test } from "vitest";
import { errorLine } from "../../../functions/api/error-line.ts";
import { MillraceError } from "../../../lib/index.ts";

test("an error of the engine is told with its text, and without its cause", () => {
  const error = new MillraceError(
    "STATEMENT_FAILED",
    { statement: "s", message: "m" },
    { cause: new Error("payload") },
  );
  const line = errorLine(error);
  expect(line).toMatchObject({ type: "MillraceError", code: "STATEMENT_FAILED", error: "s failed: m" });
  expect(JSON.stringify(line)).not.toContain("payload");
});

test("any other error is told by its class and its place: its text may quote the request", () => {
  const line = errorLine(new SyntaxError("payload\n  at payload"));
  expect(line).toMatchObject({
    type: "SyntaxError",
    stack: expect.arrayContaining([expect.stringContaining("error-line.test.ts")]),
  });
  expect(errorLine("payload")).toEqual({ type: "string" });
  expect(errorLine(new SyntaxError("payload"))["error"]).toBeUndefined();
});
