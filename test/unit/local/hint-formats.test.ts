import { describe, expect, test } from "vitest";
import { checkHint, type TypeHint } from "../../../infra/local/data-api/hint-formats.ts";

const GOOD: [TypeHint, string][] = [
  ["DATE", "2024-02-29"],
  ["DATE", "0001-01-01"],
  ["TIME", "23:59:59"],
  ["TIME", "12:34:56.789"],
  ["TIMESTAMP", "2024-01-15 12:34:56"],
  ["TIMESTAMP", "2024-01-15 12:34:56.7"],
  ["UUID", "7B0B7B0E-0B0A-4F0E-9F2C-2D3A4B5C6D7E"],
  ["DECIMAL", "-123456789012345678901234567890.0001"],
  ["DECIMAL", "1e3"],
  ["JSON", '{"a":[1,null]}'],
  ["JSON", "1"],
];
const BAD: [TypeHint, string, string][] = [
  ["DATE", "2024-02-30", "Cannot parse date or time"],
  ["DATE", "2023-02-29", "Cannot parse date or time"],
  ["DATE", "15/01/2024", "Cannot parse date or time"],
  ["TIME", "24:00:00", "Cannot parse date or time"],
  ["TIME", "12:34", "Cannot parse date or time"],
  ["TIMESTAMP", "2024-01-15T12:34:56", "Cannot parse date or time"],
  ["TIMESTAMP", "2024-01-15 12:34:56Z", "Cannot parse date or time"],
  ["TIMESTAMP", "2024-01-15 12:34:56+00", "Cannot parse date or time"],
  ["TIMESTAMP", "2024-01-15 12:34:56.123456", "Cannot parse date or time"],
  ["TIMESTAMP", "Sat, 15 Jul 2023 05:58:12 GMT", "Cannot parse date or time"],
  ["UUID", "{7b0b7b0e-0b0a-4f0e-9f2c-2d3a4b5c6d7e}", "Cannot parse UUID"],
  ["DECIMAL", "1,5", "Cannot parse decimal"],
  ["DECIMAL", "NaN", "Cannot parse decimal"],
  ["JSON", "{a:1}", "Cannot parse JSON"],
  ["JSON", "", "Cannot parse JSON"],
];

describe("formats of hinted strings", () => {
  test.each(GOOD)("%s takes %s", (hint, value) => {
    expect(() => checkHint(hint, value)).not.toThrow();
  });

  test.each(BAD)("%s refuses %s", (hint, value, message) => {
    expect(() => checkHint(hint, value)).toThrow(message);
  });
});
