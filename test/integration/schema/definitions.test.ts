import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { registry } from "../../../lib/index.ts";
import { things } from "../../support/engine.ts";
import { impatientClock, indexOf, type Migrating, readyFor, startMigrating } from "../../support/migrations.ts";
import { until } from "../../support/until.ts";

let m: Migrating;
beforeEach(async () => {
  m = await startMigrating();
});
afterEach(() => m[Symbol.asyncDispose]());

const v1 = readyFor(["submitted"]);
const v2 = readyFor(["submitted", "active"]);
const v3 = readyFor(["checked"]);
const later = "now() + interval '1 h'";
const due = async () =>
  (await m.rows("select name, due_at <= now() as due from things order by name")).map((r) => [r["name"], r["due"]]);

test("a trigger that watches the right columns is left alone: replacing it locks the table", async () => {
  const names: string[] = [];
  const watched = m.watched((name) => names.push(name));
  await m.run(v1, { database: watched });
  expect(names).toContain("trigger create");
  names.length = 0;
  await m.run(v1, { database: watched });
  expect(names).toContain("trigger about");
  expect(names).not.toContain("trigger create");
});

describe("the fetch index", () => {
  test("is built once, and is the readiness itself", async () => {
    await m.run(v1);
    const [built] = await m.rows(
      `select oid, pg_get_indexdef(oid) as def from pg_class where relname = '${indexOf(v1)}'`,
    );
    expect(built!["def"]).toMatch(/\(due_at, id\) WHERE .*status = 'submitted'/);
    await m.run(v1);
    expect(await m.rows(`select oid from pg_class where relname = '${indexOf(v1)}'`)).toEqual([{ oid: built!["oid"] }]);
  });

  test("that a killed build left invalid is dropped and built again", async () => {
    await m.run(v1);
    const superuser = await m.database.connect("superuser");
    await superuser.query(`update pg_index set indisvalid = false where indexrelid = '${indexOf(v1)}'::regclass`);
    await m.run(v1);
    expect(await m.indexes()).toEqual({ [indexOf(v1)]: true });
  });

  test("that is still being built is waited for, not dropped", async () => {
    await m.run(v1);
    await m.rows(`drop index ${indexOf(v1)}`);
    const writer = await m.database.connect();
    await writer.query("begin; insert into things (name) values ('open')");
    const builder = await m.database.connect();
    const building = builder
      .query(`create index concurrently ${indexOf(v1)} on things (due_at, id) where status = 'submitted'`)
      .catch((error: unknown) => error);
    await until(
      async () => (await m.rows("select 1 from pg_stat_progress_create_index where index_relid <> 0")).length,
      {
        what: "the build",
      },
    );
    let waits = 0;
    const clock = impatientClock(async () => {
      if (++waits === 2) await writer.query("commit");
    });
    await m.run(v1, { clock });
    expect(await building).not.toBeInstanceOf(Error);
    expect(waits).toBeGreaterThanOrEqual(2);
    expect(await m.indexes()).toEqual({ [indexOf(v1)]: true });
  });

  test("whose build ends between two looks is not taken for one that died", async () => {
    await m.run(v1);
    const oid = () => m.rows(`select oid from pg_class where relname = '${indexOf(v1)}'`);
    const before = await oid();
    let looks = 0;
    const late: typeof m.owner = {
      ...m.owner,
      async run(statement, options) {
        const answer = await m.owner.run(statement, options);
        if (statement.name !== "index-state all" || ++looks > 1) return answer;
        return { ...answer, rows: [{ valid: false, building: false }] as never };
      },
    };
    await m.run(v1, { database: late });
    expect(looks).toBe(2);
    expect(await oid()).toEqual(before);
  });

  test("of a pipeline with the longest name has a name of its own", async () => {
    const long = (last: string) => `a${"b".repeat(61)}${last}`;
    const state = (status: "active" | "checked") =>
      things.state({ ready: (eb) => eb("status", "=", status), process: ({ apply }) => apply({}) });
    const two = registry([
      things.pipeline(long("x"), { one: state("active") }),
      things.pipeline(long("y"), { one: state("checked") }),
    ]);
    await m.run(two);
    await m.run(two);
    expect(Object.values(await m.indexes())).toEqual([true, true]);
  });
});

describe("a changed ready", () => {
  test("the new index is valid before the definition is switched", async () => {
    await m.run(v1);
    const seen: unknown[] = [];
    const watched = m.watched(async (name) => {
      if (name.startsWith("define"))
        seen.push(await m.indexes(), (await m.rows("select ready from millrace.definitions"))[0]!["ready"]);
    });
    await m.run(v2, { database: watched });
    expect(seen).toEqual([{ [indexOf(v1)]: true, [indexOf(v2)]: true }, expect.not.stringContaining("active")]);
    expect((await m.rows("select ready from millrace.definitions"))[0]!["ready"]).toContain("active");
  });

  test("the old index serves one generation more, and is dropped then", async () => {
    await m.run(v1);
    await m.run(v2);
    await m.run(v2);
    expect(Object.keys(await m.indexes()).sort()).toEqual([indexOf(v1), indexOf(v2)].sort());
    await m.run(v3);
    expect(Object.keys(await m.indexes()).sort()).toEqual([indexOf(v2), indexOf(v3)].sort());
  });

  test("drops no index of somebody else", async () => {
    await m.run(readyFor(["failed"], "things-more"));
    await m.run(v1);
    await m.rows("create index millrace_due_things_by_hand on things (due_at)");
    await m.run(v2);
    await m.run(v3);
    expect(Object.keys(await m.indexes())).toContain(indexOf(readyFor(["failed"], "things-more")));
    expect(Object.keys(await m.indexes())).toContain("millrace_due_things_by_hand");
  });

  test("rows that only the new one makes ready are made due, and no others", async () => {
    await m.run(v1);
    await m.rows(`insert into things (name, status, due_at) values ('both', 'submitted', ${later}), ('never', 'submitted', null),
      ('new', 'active', ${later}), ('new, dead', 'active', null), ('neither', 'failed', ${later}), ('was due', 'active', '2020-01-01')`);
    await m.run(v2);
    expect(await due()).toEqual([
      ["both", false],
      ["neither", false],
      ["never", null],
      ["new", true],
      ["new, dead", true],
      ["was due", true],
    ]);
    expect(await m.rows("select due_at::text from things where name = 'was due'")).toEqual([
      { due_at: "2020-01-01 00:00:00+00" },
    ]);
  });

  test("of a first definition: every ready row is made due", async () => {
    await m.run(v3);
    await m.rows(
      `insert into things (name, status, due_at) values ('a', 'submitted', ${later}), ('b', 'failed', ${later})`,
    );
    await m.run(readyFor(["submitted"], "second"));
    expect(await due()).toEqual([
      ["a", true],
      ["b", false],
    ]);
  });

  test("that looks no more at a column that is gone: every ready row is made due", async () => {
    const byNote = things.state({
      ready: (eb) => eb("note", "is", null),
      process: ({ apply }) => apply({}),
    });
    await m.run(registry([things.pipeline("things", { byNote })]));
    await m.rows(`insert into things (name, due_at) values ('a', ${later})`);
    await m.rows("alter table things drop column note cascade");
    await m.run(v1);
    expect(await due()).toEqual([["a", true]]);
  });

  test("a run that was killed before the switch makes them due again", async () => {
    await m.run(v1);
    await m.rows(`insert into things (name, status, due_at) values ('new', 'active', ${later})`);
    const killed = m.watched((name) => {
      if (name.startsWith("define")) throw new Error("killed");
    });
    await expect(m.run(v2, { database: killed })).rejects.toThrow("killed");
    await m.rows(`insert into things (name, status, due_at) values ('newer', 'active', ${later})`);
    await m.run(v2);
    expect(await due()).toEqual([
      ["new", true],
      ["newer", true],
    ]);
  });

  test("the trigger's columns follow", async () => {
    const byNote = registry([
      things.pipeline("things", {
        only: things.state({ ready: (eb) => eb("note", "is not", null), process: ({ apply }) => apply({}) }),
      }),
    ]);
    await m.run(v1);
    await m.rows(`insert into things (name, due_at) values ('a', ${later})`);
    await m.rows("update things set note = 'x'");
    expect(await due()).toEqual([["a", false]]);
    await m.run(byNote);
    await m.rows(`update things set due_at = ${later}`);
    await m.rows("update things set status = 'failed'");
    expect(await due()).toEqual([["a", false]]);
    await m.rows("update things set note = 'y'");
    expect(await due()).toEqual([["a", true]]);
  });
});
