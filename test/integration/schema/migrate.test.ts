import { type Kysely, sql } from "kysely";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { migrations } from "../../support/engine.ts";
import { impatientClock, type Migrating, readyFor, startMigrating } from "../../support/migrations.ts";
import { until } from "../../support/until.ts";

let m: Migrating;
beforeEach(async () => {
  m = await startMigrating();
});
afterEach(() => m[Symbol.asyncDispose]());

const pipelines = readyFor(["submitted"]);
const steal = () => m.rows("update millrace.migration_lock set token = gen_random_uuid() returning 1");
const exists = async (table: string) => (await m.rows(`select to_regclass('${table}') is not null as it`))[0]!["it"];
const note = (text: string) => ({
  up: (db: Kysely<unknown>) => sql`insert into logs (message) values (${text})`.execute(db).then(() => undefined),
});

describe("migrations", () => {
  test("run once each, in the order of their names; the next run adds only what is new", async () => {
    await m.run(pipelines, { migrations: { ...migrations, "0003": note("three"), "0002": note("two") } });
    await m.run(pipelines, {
      migrations: { ...migrations, "0003": note("three"), "0002": note("two"), "0004": note("four") },
    });
    expect(await m.rows("select message from logs order by id")).toEqual(
      ["two", "three", "four"].map((message) => ({ message })),
    );
    expect(await m.rows("select 1 from millrace.migration_lock")).toEqual([]);
  });

  test("one that fails is named, leaves nothing behind, and gives the lock back", async () => {
    const broken = {
      up: async (db: Kysely<unknown>) => {
        await sql`create table half (n int)`.execute(db);
        await sql`select 1 / 0`.execute(db);
      },
    };
    await expect(m.run(pipelines, { migrations: { ...migrations, "0002-broken": broken } })).rejects.toMatchObject({
      code: "MIGRATION_FAILED",
      details: { migration: "0002-broken", message: expect.stringContaining("22012") },
    });
    expect(await exists("half")).toBe(false);
    expect(await m.rows("select 1 from millrace.migration_lock")).toEqual([]);
    await m.run(pipelines, { migrations: { ...migrations, "0002-broken": note("mended") } });
    expect(await m.rows("select message from logs")).toEqual([{ message: "mended" }]);
  });

  test("a table with a column that no claim could read: says which", async () => {
    const odd = {
      ...migrations,
      "0002-odd": {
        up: async (db: Kysely<unknown>) => {
          await sql`alter table things add column takes interval, add column price money`.execute(db);
        },
      },
    };
    await expect(m.run(pipelines, { migrations: odd })).rejects.toMatchObject({
      code: "COLUMN_TYPE",
      message: expect.stringContaining("takes (interval), price (money)"),
    });
  });

  test("a table without the columns of pipelines: says which", async () => {
    const bare = {
      "0001": { up: (db: Kysely<unknown>) => db.schema.createTable("things").addColumn("id", "uuid").execute() },
    };
    await expect(m.run(pipelines, { migrations: bare })).rejects.toMatchObject({
      code: "COLUMN_MISSING",
      details: { columns: "created_at, last_processed_at, due_at, lock_expires_at, lock_token, lock_owner" },
    });
    await expect(m.run(pipelines, { migrations: {} })).rejects.toThrow();
  });

  test("prepare runs when the engine's tables exist and the application's do not", async () => {
    let found: unknown[] = [];
    await m.run(pipelines, {
      prepare: async () => {
        found = [await exists("millrace.items"), await exists("things")];
      },
    });
    expect(found).toEqual([true, false]);
  });
});

describe("two runs at once", () => {
  test("one waits for the other, both succeed, each migration runs once", async () => {
    let waited = 0;
    const log = (message: string) => {
      if (message === "another migration runs") waited++;
    };
    const slow = {
      ...migrations,
      "0002": {
        async up(db: Kysely<unknown>) {
          await sql`insert into logs (message) values ('slow')`.execute(db);
          await until(() => waited > 0, { what: "the other run to wait" });
        },
      },
    };
    await Promise.all([m.run(pipelines, { migrations: slow, log }), m.run(pipelines, { migrations: slow, log })]);
    expect(waited).toBeGreaterThan(0);
    expect(await m.rows("select message from logs")).toEqual([{ message: "slow" }]);
  });

  const hold = () =>
    m.rows(
      "insert into millrace.migration_lock values ('migrations', gen_random_uuid(), now() + interval '1 h') returning 1",
    );

  test("the other one never ends: gives up and says until when it is locked", async () => {
    await m.run(pipelines);
    await hold();
    await expect(m.run(pipelines, { wait: { waitSeconds: 5 } })).rejects.toMatchObject({
      code: "MIGRATION_LOCKED",
      details: { seconds: 5 },
    });
    expect(await m.rows("select 1 from millrace.migration_lock")).toHaveLength(1);
  });

  test("the other one was killed: its lock is taken over when it expires, and not before", async () => {
    await m.run(pipelines);
    await hold();
    let waits = 0;
    const clock = impatientClock(async () => {
      if (++waits === 3) await m.rows("update millrace.migration_lock set expires_at = now() - interval '1 s'");
    });
    await m.run(pipelines, { clock, migrations: { ...migrations, "0002": note("after") } });
    expect(waits).toBe(3);
    expect(await m.rows("select message from logs")).toEqual([{ message: "after" }]);
  });
});

describe("the lock is lost", () => {
  const lost = { code: "MIGRATION_LOCK_LOST" };

  test("before the application's migrations: none runs", async () => {
    await expect(m.run(pipelines, { prepare: () => steal().then(() => undefined) })).rejects.toMatchObject(lost);
    expect(await exists("things")).toBe(false);
    expect(await m.rows("select 1 from millrace.migration_lock")).toHaveLength(1);
  });

  test("between its extension and the transaction: nothing of that is written", async () => {
    let prepared = false;
    let extensions = 0;
    const thief: typeof m.owner = {
      ...m.owner,
      async run(statement, options) {
        const answer = await m.owner.run(statement, options);
        if (prepared && statement.name === "extend migrations" && ++extensions === 1) await steal();
        return answer;
      },
    };
    const prepare = async () => {
      prepared = true;
    };
    await expect(m.run(pipelines, { database: thief, prepare })).rejects.toMatchObject(lost);
    expect(await exists("things")).toBe(false);
  });

  test("after a migration: the pipelines are not touched", async () => {
    const stealing = m.watched((name) => (name === "columns all" ? steal() : undefined));
    await expect(m.run(pipelines, { database: stealing })).rejects.toMatchObject(lost);
    expect(await m.rows("select 1 from millrace.definitions")).toEqual([]);
  });

  test("right before a definition is switched, its index being there: it is not switched, no index is dropped", async () => {
    const next = readyFor(["submitted", "active"]);
    await m.run(pipelines);
    await m.run(next);
    await m.run(readyFor(["checked"]));
    const before = [await m.indexes(), await m.rows("select * from millrace.definitions")];
    const stealing = m.watched((name) => (name.startsWith("define") ? steal() : undefined));
    await expect(m.run(next, { database: stealing })).rejects.toMatchObject(lost);
    expect([await m.indexes(), await m.rows("select * from millrace.definitions")]).toEqual(before);
  });
});
