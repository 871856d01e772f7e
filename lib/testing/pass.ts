import { sql } from "kysely";
import { systemClock } from "../adapters/clock.ts";
import { type RecordedEvents, recordedEvents } from "../adapters/events.ts";
import type { Pipeline, StateDefinition } from "../define/pipeline.ts";
import { type Registry, registry as registryOf } from "../define/registry.ts";
import type { ReadDb } from "../define/state.ts";
import { fetchPipeline } from "../engine/fetch.ts";
import { type Item, itemBody } from "../engine/item.ts";
import type { Database, Ports } from "../engine/ports.ts";
import { workBatch } from "../engine/work.ts";
import { type Sql, table, text, uuid } from "../sql/parts.ts";
import { statement } from "../sql/statement.ts";

/** A migrated database as functions see it: what `dataApi()` answers. */
export interface PipelineDatabase extends Database {
  /** What `load` and `decide` read with. */
  // biome-ignore lint/suspicious/noExplicitAny: any schema
  readonly kysely: ReadDb<any>;
}

/** What a pass did. */
export interface PassRun {
  readonly events: RecordedEvents;
  /** The items of the fetch, in the order in which they were sent. */
  readonly items: readonly Item[];
}

/** Wraps the user's `process`, so that a test sees that it ran, or interferes. */
export type Around = (process: () => unknown) => unknown;

export interface PassOptions {
  /** Runs after the fetch and before the worker. */
  readonly between?: () => Promise<void>;
  readonly around?: Around;
  /** @default true: false = the fetch alone */
  readonly work?: boolean;
}

/** Fetches what is due and works on it, as fetcher and worker do. */
export async function runPass<S>(
  database: PipelineDatabase,
  registry: Registry<S>,
  name: string,
  services: S,
  { between, around, work = true }: PassOptions = {},
): Promise<PassRun> {
  const items: Item[] = [];
  const events = recordedEvents();
  const ports: Ports = {
    database,
    reader: { selectFrom: database.kysely.selectFrom.bind(database.kysely) },
    items: {
      send: async (some) => {
        items.push(...some);
        return some.map(() => "accepted" as const);
      },
    },
    hints: { send: async () => undefined },
    wakeHeartbeater: async () => undefined,
    events,
    clock: systemClock,
    random: Math.random,
    timeLeft: () => Number.POSITIVE_INFINITY,
  };
  const changed = around === undefined ? registry : replaced(registry, wrapped(registry.get(name), around));
  await fetchPipeline(changed, name, ports);
  await between?.();
  const messages = items.map((item, n) => ({ messageId: String(n), body: itemBody(item) }));
  if (work) await workBatch(changed, messages, services, "test", ports);
  return { events, items };
}

/** The registry with one pipeline in another version. */
export const replaced = <S>({ pipelines }: Registry<S>, other: Pipeline): Registry<S> =>
  registryOf<S>(pipelines.map((p) => (p.name === other.name ? other : p)));

function wrapped(pipeline: Pipeline, around: Around): Pipeline {
  const wrap = (state: StateDefinition): StateDefinition => ({
    ...state,
    spec: {
      ...state.spec,
      process: (snapshot, services) => around(() => state.spec.process(snapshot, services)) as never,
    },
  });
  return { ...pipeline, states: pipeline.states.map(wrap) };
}

/** A row with all its columns, as JSON has them. */
export type JsonRow = Readonly<Record<string, unknown>>;

const LOCK_COLUMNS = ["lock_token", "lock_owner", "lock_expires_at"] as const;

/** The lock columns of a row, and the others. */
export function parted(row: JsonRow): { readonly lock: JsonRow; readonly rest: JsonRow } {
  const isLock = (name: string) => (LOCK_COLUMNS as readonly string[]).includes(name);
  const of = (wanted: boolean) => Object.fromEntries(Object.entries(row).filter(([name]) => isLock(name) === wanted));
  return { lock: of(true), rest: of(false) };
}

/** The rows of a table, by id; all of them, or those with these ids. */
export async function rowsOf(database: Database, name: string, ids?: readonly string[]): Promise<readonly JsonRow[]> {
  if (ids?.length === 0) return [];
  const where = ids === undefined ? sql`true` : sql`t.id in (${sql.join(ids.map(uuid))})`;
  const { rows } = await database.run(
    statement<{ row: string }>(
      "read",
      name,
      sql`select to_jsonb(t)::text as row from ${table(name)} t where ${where} order by to_jsonb(t)->>'id'`,
    ),
  );
  return rows.map(({ row }) => JSON.parse(row) as JsonRow);
}

/** Writes columns of rows, as plain SQL by somebody else does. */
export async function write(database: Database, name: string, ids: readonly string[], set: Sql): Promise<void> {
  await database.run(
    statement("write", name, sql`update ${table(name)} set ${set} where id in (${sql.join(ids.map(uuid))})`),
  );
}

/** Somebody holds a row: the token is another one than any that the test's pass has. */
export const held = (owner: string, token: string, hours = 1): Sql =>
  sql`lock_token = ${uuid(token)}, lock_owner = ${text(owner)}, lock_expires_at = now() + make_interval(hours => ${sql.lit(hours)})`;

/** What the engine remembers of a row. */
export async function itemOf(database: Database, name: string, id: string): Promise<JsonRow | undefined> {
  const { rows } = await database.run(
    statement<{ state: string; in_flight: boolean; related: string | null }>(
      "read",
      "items",
      sql`select i.state, i.finished_at is null as in_flight, i.related::text as related from millrace.items i
        where i.pipeline = ${text(name)} and i.item_id = ${uuid(id)}`,
    ),
  );
  return rows[0];
}

/** Forgets what earlier tests left in flight, so that the queue has room. */
export async function forgetItems(database: Database, name: string): Promise<void> {
  await database.run(statement("forget", name, sql`delete from millrace.items where pipeline = ${text(name)}`));
}
