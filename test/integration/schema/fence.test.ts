import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createWriter } from "../../../lib/index.ts";
import { applySql } from "../../../lib/sql/apply.ts";
import { scopeOf } from "../../../lib/sql/parts.ts";
import { requestSql } from "../../../lib/sql/request.ts";
import { statement } from "../../../lib/sql/statement.ts";
import { hold, lockRows, relatedGroup, takeRow } from "../../support/related-steps.ts";
import { createRelatedEngine, type RelatedEngine, type RelatedSchema } from "../../support/related-tables.ts";
import { answer, onClient } from "../../support/steps.ts";

let engine: RelatedEngine;
beforeAll(async () => {
  engine = await createRelatedEngine();
});
afterAll(() => engine?.[Symbol.asyncDispose]());
beforeEach(() => engine.clear());

const heldGroup = async (columns: Readonly<Record<string, unknown>> = {}) => {
  const id = await engine.insert("groups", columns);
  return { id, claimed: await takeRow(engine, "groups", id) };
};
const refused = (id: string) => ({
  code: "MR001",
  message: expect.stringMatching(
    new RegExp(`^row ${id} of groups is held by groups: use the writer, or wait; .*to null first$`),
  ),
});
const fenced = { code: "ROW_FENCED", status: 409, details: { sqlState: "MR001", failure: "failed" } };
const plain = (query: string) => statement("plain", "groups", sql.raw(query));

describe.each(["app", "owner", "superuser"] as const)("to plain SQL of the %s", (as) => {
  let client: Awaited<ReturnType<typeof engine.database.connect>>;
  beforeAll(async () => {
    client = await engine.database.connect(as);
  });
  const run = async (text: string) => (await client.query(text)).rowCount;

  test.each([
    ["a column that is managed", "update groups set status = 'x'"],
    ["it among others", "update groups set wanted = 1, name = 'x', due_at = now()"],
    ["its id", "update groups set id = gen_random_uuid()"],
    ["it, and says the same token again", "update groups set name = 'x', lock_token = lock_token, lock_owner = null"],
    ["the whole row by deletion", "delete from groups"],
  ])("a held row refuses whoever changes %s", async (_, text) => {
    const { id } = await heldGroup();
    const before = await engine.row("groups", id);
    await expect(run(text)).rejects.toMatchObject(refused(id));
    expect(await engine.row("groups", id)).toEqual(before);
  });

  test.each([
    ["an intent column", "update groups set wanted = 7, due_at = now()"],
    [
      "clocks and the expiry of its lock",
      "update groups set due_at = null, last_processed_at = now(), lock_expires_at = now()",
    ],
    ["a managed column that keeps its value", "update groups set name = name, status = status"],
    ["its lock", "update groups set lock_token = null, lock_owner = null, lock_expires_at = null"],
    ["a managed column together with its token", "update groups set name = 'x', lock_token = gen_random_uuid()"],
  ])("a held row takes %s", async (_, text) => {
    await heldGroup();
    expect(await run(text)).toBe(1);
  });

  test("a free row takes everything, also one that somebody owns", async () => {
    await engine.insert("groups", { lock_owner: "groups" });
    expect(await run("update groups set name = 'x', status = 'closing'")).toBe(1);
    expect(await run("delete from groups")).toBe(1);
  });

  test("a row whose lock has expired is held until somebody takes it or clears it", async () => {
    const { id } = await heldGroup();
    await engine.query("update groups set lock_expires_at = now() - interval '1 h'");
    await expect(run("update groups set name = 'x'")).rejects.toMatchObject(refused(id));
    await run("update groups set lock_token = null, lock_owner = null, lock_expires_at = null");
    expect(await run("update groups set name = 'x'")).toBe(1);
  });
});

test("through the Data API the refusal has a code, says what to do, and is not repeated", async () => {
  const { id } = await heldGroup();
  const refusal = engine.api.run(plain("update groups set name = 'x'"), { patient: true });
  await expect(refusal).rejects.toMatchObject(fenced);
  await expect(refusal).rejects.toThrow(
    `plain groups goes past a lock: ERROR: row ${id} of groups is held by groups: use`,
  );
  await expect(engine.api.read("a write", (db) => sql`delete from groups`.execute(db))).rejects.toMatchObject(fenced);
});

test("a row that a writer holds names no owner", async () => {
  const id = await engine.insert("groups");
  await hold(engine, "groups", id);
  await expect(engine.api.run(plain("update groups set name = 'x'"))).rejects.toThrow("is held by a writer: use");
});

test("an intent that is none is refused when it is asked for", async () => {
  const { id } = await heldGroup();
  const ask = (intent: object) => engine.run(requestSql("groups", engine.registry.of("groups"), [id], { ...intent }));
  await expect(ask({ name: "x" })).rejects.toMatchObject(fenced);
  expect(await ask({ wanted: 3 })).toMatchObject([{ id }]);
});

describe("the engine's deletions", () => {
  test("of a held row pass, and leave nothing of their permission", async () => {
    const { id } = await engine.group(0, { status: "closing" });
    const claimed = await takeRow(engine, "groups", id);
    const { id: other } = await engine.group(0);
    await hold(engine, "groups", other, { owner: "groups" });
    const client = await engine.database.connect("app");
    const scope = scopeOf(engine.registry, engine.registry.get("groups"));
    const deletion = applySql(scope, [answer(claimed, { delete: true })]);
    expect(await onClient(client)(deletion)).toMatchObject([{ result: "applied" }]);
    expect(await engine.query("select id from groups")).toEqual([{ id: other }]);
    await expect(client.query("delete from groups")).rejects.toMatchObject(refused(other));
  });

  test("of the related rows that it holds pass", async () => {
    const { id, members } = await engine.group(2, { status: "closing" });
    const claimed = await takeRow(engine, "groups", id);
    await lockRows(engine, "groups", [claimed]);
    const scope = scopeOf(engine.registry, engine.registry.get("groups"));
    const related = [relatedGroup("members", claimed, members, { delete: true })];
    expect(await engine.run(applySql(scope, [answer(claimed)], { related }))).toMatchObject([{ result: "applied" }]);
    expect(await engine.query("select id from members")).toEqual([]);
  });

  test("by a writer that holds the row pass", async () => {
    const id = await engine.insert("groups");
    const hints = { send: async () => undefined };
    const writer = createWriter<RelatedSchema>({ database: engine.api as never, registry: engine.registry, hints });
    await writer.withLock("groups", id, {}, async (_, held) => {
      await held.update(id, { name: "x" });
      await held.update(id, { name: "y" });
      await held.delete(id);
    });
    expect(await engine.query("select id from groups")).toEqual([]);
  });
});
