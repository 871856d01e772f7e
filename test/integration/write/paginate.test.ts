import type { Kysely } from "kysely";
import { jsonArrayFrom } from "kysely/helpers/postgres";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { paginate } from "../../../lib/index.ts";
import { connect } from "../../support/engine.ts";
import { createTestDatabase, type TestDatabase } from "../../support/test-database.ts";

interface Schema {
  entries: { id: string; created_at: Date; seen_at: Date | null; kind: string; note: string | null };
  targets: { entry_id: string; name: string };
}

let database: TestDatabase;
let db: Kysely<Schema>;
beforeAll(async () => {
  database = await createTestDatabase();
  await database.ownerPool.query(
    `create table entries (id uuid primary key default gen_random_uuid(), created_at timestamptz not null default now(), seen_at timestamptz default now(), kind text not null default 'a', note text);
     create table targets (entry_id uuid not null references entries, name text not null);
     create index by_time on entries (created_at desc, id asc)`,
  );
  db = connect<Schema>(database, database.dataApiConfig.secretArn).kysely;
});
afterAll(() => database.drop());
beforeEach(() => database.ownerPool.query("truncate entries, targets"));

type Options = Partial<Parameters<typeof paginate<Schema, "entries", { id: string }, "entries">>[1]>;
const page = (options: Options = {}, kind?: string) => {
  const all = db.selectFrom("entries").select("entries.id");
  const query = kind === undefined ? all : all.where("kind", "=", kind);
  return paginate(query, { table: "entries", limit: 10, ...options });
};
/** Every page until the last, as the ids of each. */
async function pages(options: Options = {}, kind?: string, between?: () => Promise<unknown>): Promise<string[][]> {
  const found: string[][] = [];
  let cursor: string | undefined;
  do {
    const { items, nextCursor } = await page({ ...options, ...(cursor && { cursor }) }, kind);
    found.push(items.map((i) => i.id));
    cursor = nextCursor ?? undefined;
    await between?.();
  } while (cursor !== undefined);
  return found;
}
const sorted = async (order: string, where = "true") =>
  (await database.ownerPool.query(`select id from entries where ${where} order by ${order}`)).rows.map((r) => r.id);
const fill = (rows: number, at: string, kind = "'a'") =>
  database.ownerPool.query(
    `insert into entries (created_at, seen_at, kind) select ${at}, ${at}, ${kind} from generate_series(1, ${rows}) g`,
  );

describe("every row exactly once, in order", () => {
  test.each([
    ["desc", "created_at desc, id asc"],
    ["asc", "created_at asc, id desc"],
  ] as const)(
    "that differ by a microsecond, %s: none is lost where a JavaScript date would lose it",
    async (direction, order) => {
      await fill(30, "timestamptz '2026-01-01 00:00:00.123+00' + g * interval '1 microsecond'");
      expect((await pages({ limit: 7, direction })).flat()).toEqual(await sorted(order));
    },
  );

  test.each([
    ["desc", "id asc"],
    ["asc", "id desc"],
  ] as const)("five of one timestamp, two a page, %s: 2, 2, 1", async (direction, order) => {
    await fill(5, "timestamptz '2026-01-01 00:00:00.000001+00'");
    const found = await pages({ limit: 2, direction });
    expect(found.map((p) => p.length)).toEqual([2, 2, 1]);
    expect(found.flat()).toEqual(await sorted(order));
  });

  test("ties go by id the other way round, in both directions", async () => {
    await fill(25, "timestamptz '2026-01-01 00:00:00+00'");
    expect((await pages({ limit: 4 })).flat()).toEqual(await sorted("id asc"));
    expect((await pages({ limit: 4, direction: "asc" })).flat()).toEqual(await sorted("id desc"));
  });

  test("250 rows, ties and all", async () => {
    await fill(250, "timestamptz '2026-01-01 00:00:00+00' + (g / 7) * interval '1 s'");
    for (const [direction, order] of [
      ["desc", "created_at desc, id asc"],
      ["asc", "created_at asc, id desc"],
    ] as const) {
      const found = await pages({ limit: 20, direction });
      expect(found.map((p) => p.length)).toEqual([...Array(12).fill(20), 10]);
      expect(found.flat()).toEqual(await sorted(order));
    }
  });

  test.each([
    ["desc", "created_at desc, id asc"],
    ["asc", "created_at asc, id desc"],
  ] as const)("%s: rows inserted meanwhile with the same instants shift nothing", async (direction, order) => {
    await fill(250, "timestamptz '2026-01-01 00:00:00+00' + (g / 50) * interval '1 s'");
    const before = await sorted(order);
    const between = () => fill(3, "timestamptz '2026-01-01 00:00:00+00' + (g % 5) * interval '1 s'");
    const found = await pages({ limit: 50, direction }, undefined, between);
    const seen = found.flat();
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.filter((id) => before.includes(id))).toEqual(before);
  });

  test("of a filter", async () => {
    await fill(
      40,
      "timestamptz '2026-01-01 00:00:00+00' + (g / 3) * interval '1 s'",
      "case g % 2 when 0 then 'a' else 'b' end",
    );
    expect((await pages({ limit: 6 }, "b")).flat()).toEqual(await sorted("created_at desc, id asc", "kind = 'b'"));
  });

  test("a cursor whose row is deleted meanwhile still stands for its place", async () => {
    await fill(9, "timestamptz '2026-01-01 00:00:00+00' + (g / 4) * interval '1 s'");
    const before = await sorted("created_at desc, id asc");
    const shown = new Set<string>();
    const found = await pages({ limit: 3 }, undefined, async () => {
      const gone = before.filter((id) => !shown.has(id)).slice(0, 3);
      for (const id of gone) shown.add(id);
      await database.ownerPool.query("delete from entries where id = any($1)", [gone]);
    });
    expect(found.flat()).toEqual(before);
  });

  test("of the filter option, null and undefined among its values", async () => {
    await fill(
      40,
      "timestamptz '2026-01-01 00:00:00+00' + (g / 3) * interval '1 s'",
      "case g % 2 when 0 then 'a' else 'b' end",
    );
    await database.ownerPool.query("update entries set note = 'n' where created_at > '2026-01-01 00:00:05+00'");
    const newest = "created_at desc, id asc";
    expect((await pages({ limit: 6, filter: { kind: "b", note: undefined } })).flat()).toEqual(
      await sorted(newest, "kind = 'b'"),
    );
    const found = (await pages({ limit: 2, filter: { kind: "b", note: null } })).flat();
    expect(found).toEqual(await sorted(newest, "kind = 'b' and note is null"));
    expect(found.length).toBeGreaterThan(4);
  });

  test.each([
    ["desc", "seen_at desc, id asc"],
    ["asc", "seen_at asc, id desc"],
  ] as const)(
    "%s by a timestamp that may be null: those rows are not listed, and hide no others",
    async (direction, order) => {
      await fill(7, "timestamptz '2026-01-01 00:00:00+00' - g * interval '1 s'");
      await fill(5, "timestamptz '2026-01-01 00:00:00+00' + g * interval '1 s'");
      await database.ownerPool.query("update entries set seen_at = null where created_at > '2026-01-01 00:00:00+00'");
      expect((await pages({ limit: 2, by: "seen_at", direction })).flat()).toEqual(
        await sorted(order, "seen_at is not null"),
      );
    },
  );

  test("by another timestamp", async () => {
    await fill(12, "timestamptz '2026-01-01 00:00:00+00' - g * interval '1 s'");
    expect((await pages({ limit: 5, by: "seen_at", direction: "asc" })).flat()).toEqual(
      await sorted("seen_at asc, id desc"),
    );
  });
});

describe("the last page", () => {
  test.each([
    [0, [0]],
    [10, [10]],
    [11, [10, 1]],
  ])("of %i rows, ten a page: %j", async (rows, lengths) => {
    await fill(rows, "now() - g * interval '1 s'");
    expect((await pages()).map((p) => p.length)).toEqual(lengths);
  });

  test("items carry what was selected and nothing of ours", async () => {
    await fill(1, "now()");
    expect(Object.keys((await page()).items[0]!)).toEqual(["id"]);
  });
});

describe("rows joined to those of the list", () => {
  const withTargets = async (entries: number, targets: number) => {
    await fill(entries, "timestamptz '2026-01-01 00:00:00+00' + (g / 2) * interval '1 s'");
    await database.ownerPool.query(
      `insert into targets select id, 'target ' || g from entries, generate_series(1, ${targets}) g`,
    );
  };

  test("as a list do not shrink a page, however many they are", async () => {
    await withTargets(5, 30);
    const query = db
      .selectFrom("entries")
      .select((eb) => [
        "entries.id",
        jsonArrayFrom(
          eb.selectFrom("targets").select("targets.name").whereRef("targets.entry_id", "=", "entries.id"),
        ).as("targets"),
      ]);
    const sizes: number[] = [];
    const seen: string[] = [];
    let from: string | undefined;
    do {
      const { items, nextCursor } = await paginate(query, { table: "entries", limit: 2, cursor: from });
      sizes.push(items.length);
      for (const item of items) {
        seen.push(item.id);
        expect(item.targets).toHaveLength(30);
      }
      from = nextCursor ?? undefined;
    } while (from !== undefined);
    expect(sizes).toEqual([2, 2, 1]);
    expect(seen).toEqual(await sorted("created_at desc, id asc"));
  });

  test.each([1, 2, 50])("one by one are refused, %i a page: a page would lose rows", async (limit) => {
    await withTargets(1, 2);
    const query = db
      .selectFrom("entries")
      .innerJoin("targets", "targets.entry_id", "entries.id")
      .select("targets.name");
    const details = { table: "entries", id: (await sorted("id"))[0] };
    await expect(paginate(query, { table: "entries", limit })).rejects.toMatchObject({
      code: "PAGE_ROW_TWICE",
      details,
    });
  });
});

test.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY])("a page of %d rows is none", async (limit) => {
  await expect(page({ limit })).rejects.toMatchObject({ code: "OPTION", details: { option: "limit" } });
});

const cursor = (...parts: unknown[]) => Buffer.from(JSON.stringify(parts)).toString("base64url");
const id = crypto.randomUUID();
test.each([
  ["", "empty"],
  ["%%%", "no base64"],
  [Buffer.from("{").toString("base64url"), "no JSON"],
  [Buffer.from("null").toString("base64url"), "null"],
  [Buffer.from("7").toString("base64url"), "a number"],
  [cursor(), "nothing in it"],
  [cursor("2026-01-01 00:00:00+00"), "no id"],
  [cursor("2026-01-01 00:00:00+00", "x"), "an id that is none"],
  [cursor("2026-01-01 00:00:00+00", 7), "a number for an id"],
  [cursor(7, id), "a number for a time"],
  [cursor("now", id), "a word for a time"],
  [cursor("infinity", id), "no finite time"],
  [cursor("2026-02-30 00:00:00+00", id), "a day that does not exist"],
  [cursor("2026-13-01 00:00:00+00", id), "a month that does not exist"],
  [cursor("2026-01-01 25:00:00+00", id), "an hour that does not exist"],
  [cursor("0000-01-01 00:00:00+00", id), "a year that does not exist"],
  [cursor("2026-01-01 00:00:00+99", id), "a zone that does not exist"],
  [cursor("2026-01-01 00:00:00+00'; drop table entries --", id), "more than a time"],
])("%s is no cursor: %s", async (text) => {
  await expect(page({ cursor: text })).rejects.toMatchObject({ code: "CURSOR_MALFORMED", status: 400 });
});
