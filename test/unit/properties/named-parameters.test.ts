import fc from "fast-check";
import { expect, test } from "vitest";
import { bindParameters } from "../../../infra/local/data-api/bind.ts";
import { ApiFailure } from "../../../infra/local/data-api/failure.ts";
import { scanParameters } from "../../../infra/local/data-api/named-parameters.ts";
import { anyText } from "../../fuzz/values.ts";
import { holds } from "../../support/property.ts";

/** What SQL is made of, whole and broken. */
const PIECES = [
  "select ",
  "'",
  "''",
  '"',
  "--",
  "\n",
  "/*",
  "*/",
  "::",
  ":",
  ":a",
  ":b_1",
  ":é",
  ":$x",
  "$1",
  "$$",
  "\\'",
  "\0",
  "a[1:2]",
];
const sqlLike = fc
  .array(fc.oneof(fc.constantFrom(...PIECES), anyText), { maxLength: 12 })
  .map((pieces) => pieces.join(""));

test("any text is scanned, or refused as the service refuses it, in time that grows with its length", () => {
  holds(
    fc.property(sqlLike, (sql) => {
      try {
        const { text, names } = scanParameters(sql);
        expect(names.every((name) => /^\w+$/.test(name))).toBe(true);
        // each was replaced by its own number, and nothing else was touched
        const back = names.reduce((rest, name, n) => rest.replace(`$${n + 1}`, () => `:${name}`), text);
        if (!sql.includes("$")) expect(back).toBe(sql);
      } catch (error) {
        expect(error).toBeInstanceOf(ApiFailure);
        expect(error).toMatchObject({ name: "ValidationException", status: 400 });
      }
    }),
    2_000,
  );
});

test("every name has its value, in order; one too few or too many is refused", () => {
  const names = fc.uniqueArray(fc.stringMatching(/^[a-z]\w{0,5}$/), { minLength: 1, maxLength: 6 });
  holds(
    fc.property(names, fc.nat(), (all, n) => {
      const sql = scanParameters(`select ${all.map((name) => `:${name}::text`).join(" || ")}`);
      const values = all.map((name) => ({ name, value: { kind: "stringValue" as const, value: `of ${name}` } }));
      expect(bindParameters(sql, values).map(({ text }) => text)).toEqual(all.map((name) => `of ${name}`));
      const refusal = expect.objectContaining({ name: "ValidationException" });
      expect(() => bindParameters(sql, values.toSpliced(n % all.length, 1))).toThrow(refusal);
      expect(() => bindParameters(sql, [...values, { name: "zzzzzzz", value: { kind: "isNull" } }])).toThrow(refusal);
    }),
  );
});
