import { MillraceError } from "../errors.ts";
import type { RelatedLock } from "./locks.ts";
import type { Manifest } from "./manifest.ts";
import { manifestOf } from "./manifest.ts";
import type { Pipeline, TypedPipeline } from "./pipeline.ts";

/** A pipeline that locks rows of a table as related ones. */
export interface LockUse {
  readonly pipeline: Pipeline;
  readonly lock: RelatedLock;
}

/** Parents that rows of a table make way for. */
export interface Yield {
  /** The parents' table, and the column of the children that names the parent. */
  readonly table: string;
  readonly column: string;
  /** The pipelines over the parents' table that lock these children. */
  readonly pipelines: readonly string[];
}

/** All pipelines of an application, by name and by table. */
export interface Registry<S = never> {
  readonly pipelines: readonly Pipeline[];
  /** The plain data that the infrastructure deploys. */
  readonly manifest: Manifest;
  /** @throws PIPELINE_UNKNOWN */
  get(name: string): Pipeline;
  has(name: string): boolean;
  /** The pipelines of a table; none for a table without any. */
  of(table: string): readonly Pipeline[];
  /** The tables that pipelines work on, by name: the order in which rows are locked everywhere. */
  readonly tables: readonly string[];
  /** Tables whose rows are locked: those of pipelines, and those of related rows; by name. */
  readonly lockedTables: readonly string[];
  /** Who locks rows of a table as related ones, each different lock once. */
  locksOn(table: string): readonly LockUse[];
  /** The parents that rows of a table make way for, whoever wants to take them. */
  yieldsOf(table: string): readonly Yield[];
  /** The columns of a table that some `ready` looks at (in raw fragments perhaps more names). */
  readyNames(table: string): readonly string[];
  readonly __services?: (services: S) => void;
}

/** Lists the pipelines of an application. @throws PIPELINE_TWICE, YIELD_UNKNOWN */
export function registry<S>(pipelines: readonly TypedPipeline<S>[]): Registry<S> {
  const byName = new Map<string, Pipeline>();
  for (const pipeline of pipelines) {
    if (byName.has(pipeline.name)) throw new MillraceError("PIPELINE_TWICE", { name: pipeline.name });
    byName.set(pipeline.name, pipeline);
  }
  const of = (table: string) => pipelines.filter((p) => p.table === table);
  const locksOn = byTable((table) => locksOf(pipelines, table));
  const yieldsOf = byTable((table) => yieldsFrom(of, table));
  const tables = [...new Set(pipelines.map((p) => p.table))].sort();
  for (const table of tables) yieldsOf(table);
  return {
    pipelines,
    manifest: manifestOf(pipelines),
    tables,
    lockedTables: [...new Set([...tables, ...pipelines.flatMap(relatedTables)])].sort(),
    locksOn,
    yieldsOf,
    has: (name) => byName.has(name),
    of,
    readyNames: (table) => [...new Set(of(table).flatMap((p) => p.states.flatMap((s) => s.ready.names)))].sort(),
    get(name) {
      const pipeline = byName.get(name);
      if (pipeline === undefined)
        throw new MillraceError("PIPELINE_UNKNOWN", { name, registered: [...byName.keys()].join(", ") });
      return pipeline;
    },
  };
}

/** The tables of which a pipeline locks related rows, by name. */
export const relatedTables = ({ states }: Pipeline): readonly string[] =>
  [...new Set(states.flatMap((s) => Object.values(s.locks).map((lock) => lock.table)))].sort();

function locksOf(pipelines: readonly Pipeline[], table: string): readonly LockUse[] {
  const uses = new Map<string, LockUse>();
  for (const pipeline of pipelines)
    for (const lock of pipeline.states.flatMap((s) => Object.values(s.locks)))
      if (lock.table === table) {
        const of = lock.kind === "children" ? lock.column : "";
        uses.set(`${pipeline.name} ${lock.kind === "children"} ${of}`, { pipeline, lock });
      }
  return [...uses.values()];
}

function yieldsFrom(of: (table: string) => readonly Pipeline[], children: string): readonly Yield[] {
  const found = new Map<string, Yield>();
  for (const { name, yieldTo } of of(children))
    for (const { table, column } of yieldTo) {
      const locks = (p: Pipeline) =>
        p.states
          .flatMap((s) => Object.values(s.locks))
          .some((lock) => lock.kind === "children" && lock.table === children && lock.column === column);
      const pipelines = of(table).filter(locks);
      if (pipelines.length === 0) throw new MillraceError("YIELD_UNKNOWN", { name, table, children });
      found.set(`${table} ${column}`, { table, column, pipelines: pipelines.map((p) => p.name) });
    }
  return [...found.values()];
}

function byTable<V>(make: (table: string) => V): (table: string) => V {
  const made = new Map<string, V>();
  return (table) => {
    if (!made.has(table)) made.set(table, make(table));
    return made.get(table) as V;
  };
}
