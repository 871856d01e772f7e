import { describe, expect, test } from "vitest";
import { classify, type Failure } from "../../../lib/adapters/data-api-errors.ts";

const serviceError = (name: string, message: string, httpStatusCode: number) =>
  Object.assign(new Error(message), { name, $metadata: { httpStatusCode } });
const sqlError = (text: string) => serviceError("DatabaseErrorException", text, 400);
const broken = (code: string) => Object.assign(new Error("broken"), { code });

describe("SQLState", () => {
  test.each<[string, string, Failure]>([
    ["ERROR: deadlock detected; SQLState: 40P01", "40P01", "again"],
    [
      "ERROR: could not serialize access; Hint: The transaction might succeed if retried.; SQLState: 40001",
      "40001",
      "again",
    ],
    ["ERROR: canceling statement due to lock timeout; SQLState: 55P03", "55P03", "lockTimeout"],
    ['ERROR: duplicate key value violates unique constraint "items_pkey"; SQLState: 23505', "23505", "failed"],
    ['ERROR: relation "x" does not exist; Position: 15; SQLState: 42P01', "42P01", "failed"],
    ["ERROR: something\n  Detail: Key (id)=(1) already exists.; SQLState: 23505 ", "23505", "failed"],
    ["ERROR: canceling statement due to statement timeout; SQLState: 57014", "57014", "failed"],
    ["ERROR: row 1 of things is held by things: use the writer; SQLState: MR001", "MR001", "failed"],
  ])("of %s is %s: %s", (message, sqlState, failure) => {
    expect(classify(sqlError(message))).toEqual({ failure, sqlState, message });
  });

  test("stands at the end; a value that holds the same words is not one", () => {
    const planted = 'ERROR: invalid input "; SQLState: 40P01"; SQLState: 22P02';
    expect(classify(sqlError(planted))).toMatchObject({ sqlState: "22P02", failure: "failed" });
    const none = classify(sqlError("ERROR: value SQLState: 40P01 is odd"));
    expect(none).toMatchObject({ sqlState: undefined, failure: "refused" });
  });

  test.each(["57P01", "57P02", "08006", "08003"])("%s: the server went away, nobody knows", (state) => {
    expect(classify(sqlError(`FATAL: terminating connection; SQLState: ${state}`)).failure).toBe("unanswered");
  });

  test.each(["57P03", "53300", "08001", "08004"])("%s: no session was had, nothing ran", (state) => {
    expect(classify(sqlError(`FATAL: the database system is starting up; SQLState: ${state}`)).failure).toBe("again");
  });
});

describe("the service", () => {
  test.each<[string, number, Failure]>([
    ["DatabaseResumingException", 400, "resuming"],
    ["ThrottlingException", 400, "again"],
    ["TooManyRequestsException", 429, "again"],
    ["SomethingNew", 429, "again"],
    ["InternalServerErrorException", 500, "unanswered"],
    ["InternalFailure", 500, "unanswered"],
    ["ServiceUnavailableError", 503, "unanswered"],
    ["DatabaseUnavailableException", 504, "unanswered"],
    ["StatementTimeoutException", 400, "unanswered"],
    ["SomethingNew", 502, "unanswered"],
    ["UnsupportedResultException", 400, "failed"],
    ["ValidationException", 400, "failed"],
    ["Unknown", 413, "failed"],
    ["BadRequestException", 400, "refused"],
    ["AccessDeniedException", 403, "refused"],
    ["TransactionNotFoundException", 404, "refused"],
  ])("answers %s with %i: %s", (name, status, failure) => {
    expect(classify(serviceError(name, "injected", status)).failure).toBe(failure);
  });

  test("a statement timeout that carries a state is still unanswered by the service's own name", () => {
    const error = serviceError("StatementTimeoutException", "canceling statement due to statement timeout", 400);
    expect(classify(error)).toMatchObject({ failure: "unanswered", sqlState: undefined });
  });
});

describe("the connection", () => {
  test.each(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"])("%s: nothing ran", (code) => {
    expect(classify(broken(code)).failure).toBe("again");
  });

  test.each(["ECONNRESET", "EPIPE", "ETIMEDOUT"])("%s after the request was sent: nobody knows", (code) => {
    expect(classify(broken(code)).failure).toBe("unanswered");
  });

  test("a time limit while connecting: nothing ran; while waiting for the answer: nobody knows", () => {
    const named = (message: string) =>
      classify(Object.assign(new Error(`@smithy/node-http-handler - ${message}`), { name: "TimeoutError" })).failure;
    expect(
      named(
        "the request socket did not establish a connection with the server within the configured timeout of 2000 ms.",
      ),
    ).toBe("again");
    expect(named("socket timed out while establishing a connection")).toBe("again");
    expect(named("the request socket timed out after 60000 ms of inactivity (configured by client).")).toBe(
      "unanswered",
    );
    expect(named("[ERROR] a request has exceeded the configured 60000 ms requestTimeout.")).toBe("unanswered");
    expect(classify(Object.assign(new Error("Request aborted"), { name: "AbortError" })).failure).toBe("unanswered");
  });

  test.each([undefined, null, "text", {}])("anything else (%s): nobody knows", (error) => {
    expect(classify(error).failure).toBe("unanswered");
  });
});

describe("a message tells no values", () => {
  test.each([
    [
      'ERROR: invalid input syntax for type integer: "pay"load"; Position: 9; SQLState: 22P02',
      'ERROR: invalid input syntax for type integer: "…"; Position: 9; SQLState: 22P02',
    ],
    [
      'ERROR: invalid input syntax for type json; Where: JSON data, line 1: {"a": payload...; SQLState: 22P02',
      "ERROR: invalid input syntax for type json; SQLState: 22P02",
    ],
    [
      'ERROR: duplicate key value violates unique constraint "one_name"; SQLState: 23505',
      'ERROR: duplicate key value violates unique constraint "one_name"; SQLState: 23505',
    ],
    ['Cannot parse UUID "pay"load"', 'Cannot parse UUID "…"'],
  ])("%s", (message, expected) => {
    expect(classify(Object.assign(new Error(message), { name: "DatabaseErrorException" })).message).toBe(expected);
  });
});
