import { expect, test } from "vitest";
import { LOCAL_ERRORS, LocalError, type LocalErrorCode } from "../../../infra/local/errors.ts";
import { functionName, invokedFunction } from "../../../infra/local/lambda/invoke-api.ts";
import { rateSeconds } from "../../../infra/local/schedules.ts";
import { generateSecret } from "../../../infra/local/secrets.ts";
import { parseQueueFault } from "../../../infra/local/sqs/faults.ts";

test("a local error carries its code and fills in its text", () => {
  const error = new LocalError("PORT_IN_USE", { port: 4566, what: "the AWS services", option: "--port" });
  expect(error.code).toBe("PORT_IN_USE");
  expect(error.message).toBe(
    "Port 4566 for the AWS services is taken. Stop what listens there, or give --port (0 means any free port).",
  );
});

test("no two local errors say the same", () => {
  const texts = Object.values(LOCAL_ERRORS);
  expect(new Set(texts).size).toBe(texts.length);
  for (const code of Object.keys(LOCAL_ERRORS)) expect(new LocalError(code as LocalErrorCode).message).not.toBe("");
});

test.each([
  ["rate(1 minute)", 60],
  ["rate(5 minutes)", 300],
  ["rate(2 hours)", 7200],
  ["rate(1 day)", 86_400],
])("%s is every %i s", (expression, seconds) => {
  expect(rateSeconds("S", expression)).toBe(seconds);
});

test.each(["cron(0 * * * ? *)", "rate(30 seconds)", "at(2026-01-01T00:00:00)"])("%s is refused", (expression) => {
  expect(() => rateSeconds("S", expression)).toThrow(expect.objectContaining({ code: "PROPERTY_UNSUPPORTED" }));
});

test.each([
  ["fetcher", "fetcher"],
  ["arn:aws:lambda:us-east-1:000000000000:function:fetcher", "fetcher"],
  ["arn:aws:lambda:us-east-1:000000000000:function:fetcher:1", "fetcher"],
  ["000000000000:function:fetcher", "fetcher"],
  ["fetcher:live", "fetcher"],
])("%s names the function %s", (reference, expected) => {
  expect(functionName(reference)).toBe(expected);
  expect(invokedFunction(`/2015-03-31/functions/${encodeURIComponent(reference)}/invocations`)).toBe(expected);
});

test("other Lambda paths invoke nothing", () => {
  expect(invokedFunction("/2015-03-31/functions/fetcher")).toBeUndefined();
});

test("a fault is read with its defaults", () => {
  expect(parseQueueFault({ kind: "drop" })).toEqual({ kind: "drop", count: 1 });
  expect(parseQueueFault({ kind: "delay", count: 2, seconds: 0.5 })).toEqual({ kind: "delay", count: 2, seconds: 0.5 });
});

test.each([
  [null, "body"],
  [{ kind: "explode" }, "kind"],
  [{ kind: "drop", count: 0 }, "count"],
  [{ kind: "drop", count: 1.5 }, "count"],
  [{ kind: "delay" }, "seconds"],
  [{ kind: "delay", seconds: -1 }, "seconds"],
])("the fault %j is refused for its %s", (body, field) => {
  expect(() => parseQueueFault(body)).toThrow(
    expect.objectContaining({ code: "BAD_REQUEST", details: expect.objectContaining({ field }) }),
  );
});

test("a generated secret is what its template asks for", () => {
  const value = generateSecret({
    SecretStringTemplate: '{"username":"millrace_app"}',
    GenerateStringKey: "password",
    PasswordLength: 30,
    ExcludeCharacters: " %+~`#$&*()|[]{}:;<>?!'/@\"\\",
  });
  const { username, password } = JSON.parse(value);
  expect(username).toBe("millrace_app");
  expect(password).toHaveLength(30);
  expect(password).not.toMatch(/[ %+~`#$&*()|[\]{}:;<>?!'/@"\\]/);
  expect(password).toMatch(/[a-z]/);
  expect(password).toMatch(/[A-Z]/);
  expect(password).toMatch(/[0-9]/);
});
