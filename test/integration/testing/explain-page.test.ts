import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { DataApiDatabase } from "../../../lib/index.ts";
import { explainPage } from "../../../lib/testing/index.ts";
import { connect } from "../../support/engine.ts";
import { createTestDatabase, type TestDatabase } from "../../support/test-database.ts";

interface Schema {
  entries: { id: string; created_at: Date; kind: string; open: boolean };
  marks: { entry_id: string; colour: string };
}

let database: TestDatabase;
let api: DataApiDatabase<Schema>;
beforeAll(async () => {
  database = await createTestDatabase();
  await database.ownerPool.query(
    `create table entries (id uuid primary key, created_at timestamptz not null, kind text not null, open boolean not null);
     create table marks (entry_id uuid primary key references entries, colour text not null)`,
  );
  // as the application's role: it proves plans in tests that run as the functions do
  api = connect<Schema>(database, database.dataApiConfig.secretArn);
});
afterAll(() => database.drop());

let made = 0;
const index = async (on: string) => {
  const name = `entries_${made++}`;
  await database.ownerPool.query(`create index ${name} on entries ${on}`);
  return name;
};
beforeEach(async () => {
  const { rows } = await database.ownerPool.query<{ name: string }>(
    "select indexname as name from pg_indexes where indexname like 'entries\\_%' and indexname <> 'entries_pkey'",
  );
  for (const { name } of rows) await database.ownerPool.query(`drop index ${name}`);
});

const all = () => explainPage(api.kysely, api.kysely.selectFrom("entries").selectAll("entries"), { table: "entries" });
const ofKind = (direction: "asc" | "desc" = "desc") =>
  explainPage(api.kysely, api.kysely.selectFrom("entries").selectAll("entries"), {
    table: "entries",
    direction,
    filter: { kind: "a" },
  });
const refused = (problem: unknown, columns: string) => ({
  code: "PAGE_INDEX",
  details: { table: "entries", problem, index: `create index on entries ${columns}` },
});

test("a list with its index, in both directions and on an empty table", async () => {
  const name = await index("(created_at desc, id)");
  expect(await all()).toEqual({ index: name });
  const kinds = await index("(kind, created_at desc, id)");
  expect(await ofKind()).toEqual({ index: kinds });
  expect(await ofKind("asc")).toEqual({ index: kinds });
});

test("no index: it is named", async () => {
  await expect(all()).rejects.toMatchObject(refused("reads the whole table", "(created_at desc, id)"));
});

test("an index without the id sorts", async () => {
  await index("(created_at desc)");
  await expect(all()).rejects.toMatchObject(refused("sorts all rows", "(created_at desc, id)"));
});

test("an index whose id goes the wrong way sorts", async () => {
  await index("(created_at, id)");
  await expect(all()).rejects.toMatchObject(refused("sorts all rows", "(created_at desc, id)"));
});

test("a filter without an index of its own drops rows", async () => {
  await index("(created_at desc, id)");
  await expect(ofKind()).rejects.toMatchObject(
    refused(expect.stringMatching(/^reads rows only to drop them: .*kind = 'a'/), "(kind, created_at desc, id)"),
  );
});

test("a filter column at the end of the index drops entries", async () => {
  await index("(created_at desc, id, kind)");
  await expect(ofKind()).rejects.toMatchObject(
    refused("reads index entries only to drop them: kind comes after created_at", "(kind, created_at desc, id)"),
  );
});

test("a partial index serves the condition that it is made for, and no other", async () => {
  const name = await index("(created_at desc, id) where open");
  const open = (is: boolean) =>
    explainPage(api.kysely, api.kysely.selectFrom("entries").selectAll("entries").where("open", "=", is), {
      table: "entries",
    });
  expect(await open(true)).toEqual({ index: name });
  await expect(open(false)).rejects.toMatchObject({ code: "PAGE_INDEX" });
});

test("of several joined tables the listed one leads; a condition on another one drops rows", async () => {
  const name = await index("(created_at desc, id)");
  const joined = (colour?: string) =>
    explainPage(
      api.kysely,
      api.kysely
        .selectFrom("entries")
        .leftJoin("marks", "marks.entry_id", "entries.id")
        .select(["entries.id", "marks.colour"])
        .$if(colour !== undefined, (query) =>
          query.where((eb) => eb.or([eb("colour", "is", null), eb("colour", "=", colour!)])),
        ),
      { table: "entries" },
    );
  expect(await joined()).toEqual({ index: name });
  await expect(joined("red")).rejects.toMatchObject({
    code: "PAGE_INDEX",
    details: { problem: expect.stringMatching(/^reads rows only to drop them: .*colour/) },
  });
});

test("what it sets for its own look is gone afterwards", async () => {
  await index("(created_at desc, id)");
  await all();
  const { rows } = await api.run<{ seqscan: string }>({
    name: "setting",
    query: sql`select current_setting('enable_seqscan') as seqscan`,
  });
  expect(rows).toEqual([{ seqscan: "on" }]);
});
