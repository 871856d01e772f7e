import { sql } from "kysely";
import type { RelatedLock } from "../define/locks.ts";
import type { StateDefinition } from "../define/pipeline.ts";
import type { Database } from "../engine/ports.ts";
import { type Sql, table, uuid } from "../sql/parts.ts";
import { statement } from "../sql/statement.ts";
import { type JsonRow, type PipelineDatabase, parted } from "./pass.ts";

/** The ids of the rows that a lock of main row `id` is about; of a `pick`, those that could be picked. */
export async function wantedBy(
  database: Database,
  main: string,
  id: string,
  lock: RelatedLock,
): Promise<readonly string[]> {
  const column = (of: string, name: string) => sql.ref(`${of}.${name}`);
  const where = "where" in lock && lock.where !== null ? sql.raw(`(${lock.where.aliased})`) : sql`true`;
  const names = (): Sql => {
    switch (lock.kind) {
      case "children":
        return sql`${column("t", lock.column)} = m.id`;
      case "parent":
        return sql`t.id = ${column("m", lock.column)}`;
      case "parents":
        return sql`t.id = any(${column("m", lock.column)})`;
      case "pick": {
        const equal = Object.entries(lock.match).map(([of, from]) => sql`${column("t", of)} = ${column("m", from)}`);
        return equal.length === 0 ? sql`true` : sql.join(equal, sql` and `);
      }
    }
  };
  const { rows } = await database.run(
    statement<{ id: string }>(
      "wanted",
      lock.table,
      sql`select t.id from ${table(main)} m join ${table(lock.table)} t on ${names()} where m.id = ${uuid(id)} and ${where} order by t.id`,
    ),
  );
  return rows.map((row) => row.id);
}

/** The related rows that a row's pass is about, lock by lock. */
export const relatedOf = (database: Database, main: string, id: string, { locks }: StateDefinition) =>
  Promise.all(
    Object.values(locks).map(async (lock) => ({ table: lock.table, ids: await wantedBy(database, main, id, lock) })),
  );

/** The names of the locks that a pass over the row needs, as its `decide` has it. */
export async function neededLocks(
  database: PipelineDatabase,
  main: string,
  id: string,
  { locks, spec }: StateDefinition,
): Promise<readonly string[]> {
  if (spec.decide === undefined) return Object.keys(locks);
  const row = await database.kysely.selectFrom(main).selectAll().where("id", "=", id).executeTakeFirst();
  const { rows } = await database.run(statement<{ now: Date }>("read", "clock", sql`select now() as now`));
  return (await spec.decide(database.kysely, { row, now: rows[0]!.now } as never)) as readonly string[];
}

/** The tables that an answer would write to, beside the row's own. */
export const writtenTables = (
  changes: { readonly insert?: object; readonly request?: object },
  { locks }: StateDefinition,
): readonly string[] => [
  ...new Set([
    ...Object.keys(changes.insert ?? {}),
    ...Object.keys(changes.request ?? {}),
    ...Object.values(locks).map((lock) => lock.table),
  ]),
];

export const withoutLocks = (tables: readonly (readonly JsonRow[])[]): unknown =>
  tables.map((rows) => rows.map((row) => parted(row).rest));

/** The rows of each lock's table, without the owner that a lock with `reserve` leaves on free rows at contention. */
export const unreserved = (
  tables: readonly (readonly JsonRow[])[],
  { locks }: StateDefinition,
  owner: string,
): unknown =>
  Object.values(locks).map((lock, n) =>
    tables[n]!.map((row) =>
      lock.kind === "children" && lock.reserve && row["lock_token"] === null && row["lock_owner"] === owner
        ? { ...row, lock_owner: null }
        : row,
    ),
  );
