import { expect, test } from "vitest";
import { keyOf } from "../../../lib/engine/key.ts";

const [ID, OTHER, FIRST, SECOND] = ["a", "b", "c", "d"].map((c) => `00000000-0000-4000-8000-00000000000${c}`) as [
  string,
  string,
  string,
  string,
];

test("the same for every attempt at a pass", () => {
  expect(keyOf(ID, "submitted", null)).toBe(keyOf(ID, "submitted", null));
  expect(keyOf(ID, "submitted", FIRST)).toBe(keyOf(ID, "submitted", FIRST));
});

test("another for another row, another state, and after each accepted apply", () => {
  const keys = [
    keyOf(ID, "submitted", null),
    keyOf(OTHER, "submitted", null),
    keyOf(ID, "deleting", null),
    keyOf(ID, "submitted", FIRST),
    keyOf(ID, "submitted", SECOND),
  ];
  expect(new Set(keys).size).toBe(keys.length);
});

test("32 hexadecimal digits: every provider takes it", () => {
  expect(keyOf(ID, "submitted", FIRST)).toMatch(/^[0-9a-f]{32}$/);
});

test("does not change with a release: what providers have stored must be found again", () => {
  expect(keyOf(ID, "submitted", null)).toMatchInlineSnapshot(`"bb6608a5d029ece49611d03afb4b6a6a"`);
  expect(keyOf(ID, "submitted", FIRST)).toMatchInlineSnapshot(`"d4cb72e6b6bd1c1a40744d34dd6f4774"`);
});
