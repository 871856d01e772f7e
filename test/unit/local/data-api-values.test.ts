import { describe, expect, test } from "vitest";
import { parseArray } from "../../../infra/local/data-api/array-text.ts";
import { parseRequest, rawNumber } from "../../../infra/local/data-api/exact-json.ts";
import { sqlErrorText } from "../../../infra/local/data-api/sql-error.ts";
import { statementName } from "../../../infra/local/data-api/stats.ts";
import { compactJson, serviceText } from "../../../infra/local/data-api/value-text.ts";

describe("dates and times", () => {
  test.each([
    ["time", "12:34:56", "12:34:56"],
    ["time", "12:34:56.1", "12:34:56.100"],
    ["timestamp", "2024-01-15 12:34:56.123", "2024-01-15 12:34:56.123"],
    ["timestamp", "2024-01-15 12:34:56.1234", "2024-01-15 12:34:56.123400"],
    ["timestamptz", "2024-01-15 03:34:56+00", "2024-01-15 03:34:56"],
    ["timestamptz", "2024-01-01 01:00:00.5+02", "2023-12-31 23:00:00.500"],
    ["timestamptz", "2024-01-01 01:00:00-03:30", "2024-01-01 04:30:00"],
    ["timestamptz", "0044-03-15 00:00:00+00 BC", "0044-03-15 00:00:00 BC"],
  ] as const)("%s %s", (type, text, expected) => {
    expect(serviceText(type, text)).toBe(expected);
  });

  test.each(["date", "timestamp", "timestamptz"] as const)("infinity as %s breaks the service", (type) => {
    expect(() => serviceText(type, "infinity")).toThrow(expect.objectContaining({ name: "InternalFailure" }));
    expect(() => serviceText(type, "-infinity")).toThrow(expect.objectContaining({ name: "InternalFailure" }));
  });
});

test("jsonb loses the blanks between its parts and keeps those inside strings", () => {
  expect(compactJson('{"a b": 1, "c": ["x, \\" y", 1.50]}')).toBe('{"a b":1,"c":["x, \\" y",1.50]}');
});

describe("array text", () => {
  test.each([
    ["{}", []],
    ["{1,NULL,3}", ["1", null, "3"]],
    ['{"NULL","a,b","q\\"u","b\\\\s","{"}', ["NULL", "a,b", 'q"u', "b\\s", "{"]],
    ['{""}', [""]],
    ["[0:1]={a,b}", ["a", "b"]],
  ])("%s", (text, expected) => {
    expect(parseArray(text)).toEqual(expected);
  });

  test("more than one dimension", () => {
    expect(() => parseArray("{{1,2},{3,4}}")).toThrow("The result contains a multidimensional array");
  });
});

describe("long integers in JSON", () => {
  test("keep their digits on the way in", () => {
    expect(parseRequest('{"value":{"longValue":9007199254740993}}')).toEqual({
      value: { longValue: 9007199254740993n },
    });
  });

  test("keep their digits on the way out", () => {
    expect(JSON.stringify({ longValue: rawNumber("9007199254740993") })).toBe('{"longValue":9007199254740993}');
  });
});

test("an SQL error is one line that ends with the SQLState and has no Detail", () => {
  const error = {
    message: "m",
    severity: "ERROR",
    code: "23505",
    detail: "Key (id)=(1)",
    hint: "h",
    where: "a\nb",
    position: "3",
  };
  expect(sqlErrorText(error)).toBe("ERROR: m; Hint: h; Where: a b; Position: 3; SQLState: 23505");
});

test.each([
  ["/* millrace:claim volumes */ update x", "millrace:claim volumes"],
  ["\n  /*a*/ select 1", "a"],
  ["select /* a */ 1", "other"],
  ["-- a\nselect 1", "other"],
])("a statement is named by the comment it begins with: %s", (sql, name) => {
  expect(statementName(sql)).toBe(name);
});
