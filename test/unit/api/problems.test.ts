import { expect, test } from "vitest";
import { ApiProblem, PROBLEMS, problemResponse } from "../../../functions/api/problems.ts";
import { MillraceError } from "../../../lib/index.ts";

const unexpected = () => {
  throw new Error("not to be logged");
};

test("a problem has type, title, status, detail, code and the fields that are wrong", async () => {
  const fields = [{ field: "name", problem: "is missing" }];
  const response = problemResponse(new ApiProblem("BODY_INVALID", { problem: "name is missing" }, fields), unexpected);
  expect([response.status, response.headers.get("content-type")]).toEqual([400, "application/problem+json"]);
  expect(await response.json()).toEqual({
    type: "urn:millrace:problem:body-invalid",
    title: "Bad Request",
    status: 400,
    detail: "the body is wrong: name is missing",
    code: "BODY_INVALID",
    fields,
  });
});

test("the engine's errors keep their code and status; a database that resumes says when to come back", async () => {
  const unknown = problemResponse(new MillraceError("PIPELINE_UNKNOWN", { name: "x", registered: "y" }), unexpected);
  expect([unknown.status, unknown.headers.get("retry-after")]).toEqual([404, null]);
  expect(await unknown.json()).toMatchObject({ code: "PIPELINE_UNKNOWN", detail: expect.stringContaining("x") });

  const resuming = problemResponse(new MillraceError("DATABASE_RESUMING"), unexpected);
  expect([resuming.status, resuming.headers.get("retry-after")]).toEqual([503, "5"]);
});

test("what nobody foresaw is logged, and the answer says nothing of its inside", async () => {
  for (const error of [new Error("password=hunter2"), new MillraceError("STATEMENT_FAILED", { message: "hunter2" })]) {
    const logged: unknown[] = [];
    const response = problemResponse(error, (...entry) => logged.push(entry));
    const body = JSON.stringify(await response.json());
    expect([response.status, body]).toEqual([500, expect.stringContaining("INTERNAL")]);
    expect(body).not.toContain("hunter2");
    const [[reference, cause]] = logged as [[string, unknown]];
    expect([logged.length, cause]).toEqual([1, error]);
    expect(body).toContain(reference);
  }
});

test("every problem has words of its own", () => {
  const texts = Object.values(PROBLEMS).map(({ text }) => text);
  expect(new Set(texts).size).toBe(texts.length);
});
