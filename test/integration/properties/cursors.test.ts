import fc from "fast-check";
import type { Kysely } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { pageCursor, paginate } from "../../../lib/write/paginate.ts";
import { anyText, anyValue } from "../../fuzz/values.ts";
import { connect } from "../../support/engine.ts";
import { holdsAsync } from "../../support/property.ts";
import { createTestDatabase, type TestDatabase } from "../../support/test-database.ts";

interface Schema {
  entries: { id: string; created_at: Date; seen_at: Date; tenant: string };
}
interface Entry {
  readonly id: string;
  readonly created: string;
  readonly seen: string;
  readonly tenant: string;
}

let database: TestDatabase;
let db: Kysely<Schema>;
let entries: readonly Entry[];
beforeAll(async () => {
  database = await createTestDatabase();
  await database.ownerPool.query(
    `create table entries (id uuid primary key default gen_random_uuid(), created_at timestamptz not null, seen_at timestamptz not null, tenant text not null);
     insert into entries (created_at, seen_at, tenant)
       select timestamptz '2026-01-01 00:00:00+00' + (g / 3) * interval '1 microsecond', timestamptz '2026-02-01 00:00:00+00' - g * interval '1 day', case g % 2 when 0 then 'a' else 'b' end
       from generate_series(1, 40) g`,
  );
  db = connect<Schema>(database, database.dataApiConfig.secretArn).kysely;
  entries = (
    await database.ownerPool.query("select id, created_at::text as created, seen_at::text as seen, tenant from entries")
  ).rows;
});
afterAll(() => database.drop());

const LIMIT = 5;
type Listed = "created_at" | "seen_at";
async function page(tenant: string, by: Listed, direction: "asc" | "desc", cursor: string) {
  const query = db.selectFrom("entries").select(["entries.id", "tenant"]);
  try {
    return await paginate(query, { table: "entries", by, direction, filter: { tenant }, limit: LIMIT, cursor });
  } catch (error) {
    if ((error as { code?: string }).code === "CURSOR_MALFORMED") return undefined;
    throw error;
  }
}

/** What a list has after a place, by the rule: this tenant's rows alone, in this order. */
function after(tenant: string, by: Listed, direction: "asc" | "desc", at: string, id: string): readonly string[] {
  const time = (entry: Entry) => (by === "created_at" ? entry.created : entry.seen);
  const sign = direction === "asc" ? 1 : -1;
  const order = (x: readonly [string, string], y: readonly [string, string]) =>
    sign * compare(x[0], y[0]) || -sign * compare(x[1], y[1]);
  return entries
    .filter((entry) => entry.tenant === tenant && order([time(entry), entry.id], [at, id]) > 0)
    .sort((x, y) => order([time(x), x.id], [time(y), y.id]))
    .slice(0, LIMIT)
    .map((entry) => entry.id);
}
// both are written alike, in UTC, so that texts compare as times do once their fractions are as long
const compare = (x: string, y: string) => (whole(x) < whole(y) ? -1 : whole(x) > whole(y) ? 1 : 0);
const whole = (text: string) =>
  text.replace(/(:\d\d)(\.\d+)?\+00$/, (_, seconds, fraction = ".") => seconds + fraction.padEnd(7, "0"));

const list = fc.record({
  tenant: fc.constantFrom("a", "b", "nobody"),
  by: fc.constantFrom<Listed>("created_at", "seen_at"),
  direction: fc.constantFrom("asc" as const, "desc" as const),
});

test("a cursor goes on after its row, in whatever list of whatever tenant it is used, with that list's rows alone", async () => {
  await holdsAsync(
    fc.asyncProperty(list, fc.nat(), async ({ tenant, by, direction }, n) => {
      const { id, created, seen } = entries[n % entries.length]!;
      const at = by === "created_at" ? created : seen;
      const found = await page(tenant, by, direction, pageCursor({ at, id }));
      expect(found?.items.map((item) => item.id)).toEqual(after(tenant, by, direction, at, id));
    }),
  );
});

const base64 = (text: string) => Buffer.from(text).toString("base64url");
const TIMES = [
  "2026-02-30 00:00:00+00",
  "infinity",
  "0000-01-01 00:00:00+00",
  "9999-12-31 23:59:59.999999+15:59",
  "now",
  "2026-01-01",
];

test("any other text is refused as no cursor, or goes on with rows of that list alone", async () => {
  const mutated = fc.tuple(fc.nat(), fc.nat(), anyText).map(([n, at, text]) => {
    const { id, created } = entries[n % entries.length]!;
    const cursor = pageCursor({ at: created, id });
    const place = at % cursor.length;
    return cursor.slice(0, place) + text.slice(0, 3) + cursor.slice(place + (at % 3));
  });
  const made = fc.oneof(
    fc
      .tuple(fc.oneof(fc.constantFrom(...TIMES), anyText), fc.oneof(fc.uuid(), anyText))
      .map((parts) => base64(JSON.stringify(parts))),
    anyValue.map((value) => base64(JSON.stringify(value) ?? "")),
    anyText,
  );
  const counts = { refused: 0, answered: 0 };
  await holdsAsync(
    fc.asyncProperty(list, fc.oneof(mutated, made), async ({ tenant, by, direction }, cursor) => {
      const found = await page(tenant, by, direction, cursor);
      counts[found === undefined ? "refused" : "answered"]++;
      expect(found?.items.every((item) => item.tenant === tenant) ?? true).toBe(true);
    }),
    1_000,
  );
  // one kind alone would prove nothing
  expect(counts).toEqual({ refused: expect.toSatisfy((n) => n > 0), answered: expect.toSatisfy((n) => n > 0) });
});
