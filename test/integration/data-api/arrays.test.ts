import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Calls, callsTo } from "../../support/data-api-calls.ts";
import { createTestDatabase, type TestDatabase } from "../../support/test-database.ts";

let db: TestDatabase;
let calls: Calls;
beforeAll(async () => {
  db = await createTestDatabase();
  calls = callsTo(db);
});
afterAll(() => db.drop());

// PostgreSQL has no text with a zero character.
const text = fc.string({ unit: "grapheme" }).filter((value) => !value.includes("\0"));
const awkward = fc.constantFrom("NULL", "null", "", " ", '"', "\\", "{}", "a,b", "\n", "[0:1]={a}");

test("any array of text comes back as it went in", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.oneof(text, awkward, fc.constant(null)), { maxLength: 8 }), async (values) => {
      const field = await calls.field("select array(select jsonb_array_elements_text(cast(:values as jsonb)))", {
        values: { stringValue: JSON.stringify(values) },
      });
      expect(field).toEqual({ arrayValue: { stringValues: values } });
    }),
    { numRuns: 100 },
  );
});

test("any text comes back as it went in, beside a jsonb of it", async () => {
  await fc.assert(
    fc.asyncProperty(text, async (value) => {
      const { records } = await calls.execute("select cast(:value as text), to_jsonb(cast(:value as text))", {
        value: { stringValue: value },
      });
      expect(records?.[0]?.[0]).toEqual({ stringValue: value });
      expect(JSON.parse(records?.[0]?.[1]?.stringValue ?? "")).toBe(value);
    }),
    { numRuns: 100 },
  );
});
