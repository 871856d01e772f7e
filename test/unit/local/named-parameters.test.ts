import { describe, expect, test } from "vitest";
import { scanParameters } from "../../../infra/local/data-api/named-parameters.ts";

const scan = (sql: string) => {
  const { text, names } = scanParameters(sql);
  return [text, ...names];
};

describe("what is a parameter", () => {
  test.each([
    ["select :a", ["select $1", "a"]],
    ["select :0, :1", ["select $1, $2", "0", "1"]],
    ["select :p_1::uuid", ["select $1::uuid", "p_1"]],
    ["select cast(:p as uuid)", ["select cast($1 as uuid)", "p"]],
    ["select :a-:b", ["select $1-$2", "a", "b"]],
    ["select :::a", ["select ::$1", "a"]],
    [":a", ["$1", "a"]],
  ])("%s", (sql, expected) => {
    expect(scan(sql)).toEqual(expected);
  });

  test("the same name twice is two parameters", () => {
    expect(scan("select :u, :u")).toEqual(["select $1, $2", "u", "u"]);
  });
});

describe("what is not looked into", () => {
  test.each([
    "select '12:30'",
    "select 'it''s :a'",
    'select "a:b"',
    'select "a"":b"',
    "select 1 -- :a",
    "select /* :a */ 1",
    "select a::text",
    "select x->>'a:b'",
    "select f(a := 1)",
    "select a[1 : 2]",
    "select ':a",
    "select /* :a",
    "select $1",
  ])("%s", (sql) => {
    expect(scan(sql)).toEqual([sql]);
  });

  test("a comment ends with its line", () => {
    expect(scan("select 1 -- :a\n, :b")).toEqual(["select 1 -- :a\n, $1", "b"]);
  });
});

describe("defects of the service", () => {
  test("a dollar-quoted string is looked into", () => {
    expect(scan("select $$a :b c$$")).toEqual(["select $$a $1 c$$", "b"]);
  });

  test("an array slice is read as a parameter", () => {
    expect(scan("select a[1:2]")).toEqual(["select a[1$1]", "2"]);
  });
});

test.each([
  ["select :naïve", "naïve"],
  ["select :$1", "$1"],
  ["select :é", "é"],
])("a name outside of A-Z, a-z, 0-9 and _ is refused: %s", (sql, name) => {
  expect(() => scanParameters(sql)).toThrow(`Named parameter syntax is invalid, input: ${name}`);
});
