import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type DataApiDatabase, MillraceError, NOW } from "../../../lib/index.ts";
import { createRelatedEngine, type RelatedEngine, type RelatedSchema } from "../../support/related-tables.ts";
import { twice, writerOn } from "../../support/writers.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

/** Makes a group unless there is one of that name. */
const create = (name: string) => {
  const id = crypto.randomUUID();
  return writerOn(engine).withUniqueName("groups", name, async (tx) => {
    const there = await tx.selectFrom("groups").select("id").where("name", "=", name).executeTakeFirst();
    if (there?.id === id) return id;
    if (there !== undefined) throw new MillraceError("NAME_TAKEN", { namespace: "groups", name });
    await tx.insertInto("groups").values({ id, name }).execute();
    return id;
  });
};

describe("a unique name", () => {
  test("twenty at once make one row; the others hear that it is taken", async () => {
    const made = await Promise.allSettled(Array.from({ length: 20 }, () => create("one")));
    const rows = await engine.query<{ id: string }>("select id from groups");
    expect(rows).toHaveLength(1);
    expect(made.filter((m) => m.status === "fulfilled").map((m) => m.value)).toEqual(rows.map((r) => r.id));
    const refused = made.filter((m) => m.status === "rejected").map((m) => m.reason);
    expect(refused).toHaveLength(19);
    for (const reason of refused) expect(reason).toMatchObject({ code: "NAME_TAKEN", status: 409 });
  }, 30_000);

  test("an error of the work comes out as it is, at once, and nothing stays", async () => {
    let runs = 0;
    const failing = writerOn(engine).withUniqueName("groups", "x", async (tx) => {
      runs++;
      await tx.insertInto("groups").values({ name: "x" }).execute();
      throw new TypeError("of the work");
    });
    await expect(failing).rejects.toThrow(new TypeError("of the work"));
    expect(runs).toBe(1);
    expect(await engine.query("select 1 from groups")).toEqual([]);
  });

  test("a statement that the database refuses is a coded error", async () => {
    const failing = writerOn(engine).withUniqueName("groups", "x", (tx) =>
      tx
        .insertInto("groups")
        .values({ name: null as never })
        .execute(),
    );
    await expect(failing).rejects.toMatchObject({ code: "STATEMENT_FAILED", details: { sqlState: "23502" } });
  });
});

describe("emit", () => {
  test("all rows in one statement; NOW is its instant; what a row does not name has its default", async () => {
    await writerOn(engine).emit("logs", [
      { at: NOW, message: "a" },
      { at: NOW, message: "b", level: "warn" },
    ]);
    expect(
      await engine.query(
        "select count(distinct at)::int as instants, array_agg(level order by message) as levels from logs",
      ),
    ).toEqual([{ instants: 1, levels: ["info", "warn"] }]);
  });

  test("bad data: nothing is inserted", async () => {
    const failing = writerOn(engine).emit("logs", [{ message: "a" }, { message: null as never }]);
    await expect(failing).rejects.toMatchObject({ code: "STATEMENT_FAILED" });
    expect(await engine.query("select 1 from logs")).toEqual([]);
  });

  test("rows with ids are inserted once, however often it is sent", async () => {
    const writer = writerOn(engine, undefined, twice(engine.api as unknown as DataApiDatabase<RelatedSchema>));
    await writer.emit("groups", [{ id: crypto.randomUUID(), name: "a" }]);
    expect(await engine.query("select name from groups")).toEqual([{ name: "a" }]);
  });
});
