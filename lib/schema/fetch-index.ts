import { createHash } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import type { Pipeline } from "../define/pipeline.ts";
import type { Clock } from "../engine/ports.ts";
import { MillraceError } from "../errors.ts";
import { readyAny, table, text } from "../sql/parts.ts";
import { statement } from "../sql/statement.ts";
import type { SchemaDatabase } from "./migrate.ts";

const HASH_LENGTH = 8;
const shortHash = (text: string) => createHash("sha256").update(text).digest("hex").slice(0, HASH_LENGTH);

/** What a pipeline's readiness is today; changes with any `ready` of its states. */
export function readyHash(p: Pipeline): string {
  const conditions = p.states.map((s) => s.ready.text).join(" or ");
  return shortHash(conditions);
}

/** PostgreSQL cuts longer names off, and two pipelines would share one index. */
const MOST_NAME = 63;

/** Every version of a readiness has an index of its own: the old one serves the fetchers that still run. */
export const fetchIndexName = (p: Pipeline, hash: string): string => `${fetchIndexPrefix(p)}${hash}`;

function fetchIndexPrefix({ name }: Pipeline): string {
  const start = "millrace_due_";
  const room = MOST_NAME - start.length - 1 - HASH_LENGTH;
  const plain = name.replaceAll("-", "_");
  return `${start}${plain.length <= room ? plain : `${plain.slice(0, room - 1 - HASH_LENGTH)}_${shortHash(name)}`}_`;
}

interface IndexState {
  readonly valid: boolean;
  readonly building: boolean;
}

/**
 * Builds the partial index that a pipeline's fetch reads, whose predicate *is* the pipeline's readiness, without
 * blocking writers, and waits until it is valid. What a killed build left behind is dropped and built again.
 * @throws INDEX_BUILD
 */
export async function createFetchIndex(
  database: SchemaDatabase,
  clock: Clock,
  p: Pipeline,
  alive: () => Promise<void>,
): Promise<void> {
  const name = fetchIndexName(p, readyHash(p));
  const create = sql`create index concurrently if not exists ${sql.id(name)} on ${table(p.table)} (due_at, id) where ${readyAny(p, null)}`;
  let builds = 0;
  let dead = false;
  for (;;) {
    const state = await indexState(database, name);
    if (state?.valid) return;
    if (state !== undefined && (state.building || !dead)) {
      // a build's progress ends a moment before its index is valid: only who is seen idle twice has died
      dead = !state.building;
      await alive();
      await clock.wait(1000);
      continue;
    }
    dead = false;
    if (state !== undefined) await drop(database, name);
    if (++builds > 3) throw new MillraceError("INDEX_BUILD", { index: name, message: "it stays invalid" });
    // a build can take longer than a call; it goes on, and is looked at until it ends
    await database.runLong(statement("index", p.name, create)).catch((cause: unknown) => {
      throw new MillraceError("INDEX_BUILD", { index: name, message: String(cause) }, { cause });
    });
    await alive();
  }
}

/** Removes the indexes of earlier definitions, but for those in `keep`. */
export async function dropOldIndexes(database: SchemaDatabase, p: Pipeline, keep: readonly string[]): Promise<void> {
  const prefix = fetchIndexPrefix(p);
  const { rows } = await database.run(
    statement<{ name: string }>(
      "indexes",
      p.name,
      sql`select c.relname::text as name from pg_index x join pg_class c on c.oid = x.indexrelid
        where x.indrelid = to_regclass(${p.table}) and starts_with(c.relname, ${prefix}) and length(c.relname) = ${sql.lit(prefix.length + HASH_LENGTH)}`,
    ),
  );
  for (const { name } of rows) if (!keep.includes(name)) await drop(database, name);
}

async function indexState(database: SchemaDatabase, name: string): Promise<IndexState | undefined> {
  const { rows } = await database.run(
    statement<IndexState>(
      "index-state",
      "all",
      sql`select x.indisvalid as valid, exists (select 1 from pg_stat_progress_create_index g where g.index_relid = x.indexrelid) as building
        from pg_index x join pg_class c on c.oid = x.indexrelid where c.relname = ${text(name)}`,
    ),
  );
  return rows[0];
}

async function drop(database: SchemaDatabase, name: string): Promise<void> {
  const query: RawBuilder<unknown> = sql`drop index concurrently if exists ${sql.id(name)}`;
  await database.runLong(statement("drop-index", "all", query));
}
