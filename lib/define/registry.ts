import { MillraceError } from "../errors.ts";
import type { Manifest } from "./manifest.ts";
import { manifestOf } from "./manifest.ts";
import type { Pipeline, TypedPipeline } from "./pipeline.ts";

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
  /** The columns of a table that some `ready` looks at (in raw fragments perhaps more names). */
  readyNames(table: string): readonly string[];
  readonly __services?: (services: S) => void;
}

/** Lists the pipelines of an application. @throws PIPELINE_TWICE */
export function registry<S>(pipelines: readonly TypedPipeline<S>[]): Registry<S> {
  const byName = new Map<string, Pipeline>();
  for (const pipeline of pipelines) {
    if (byName.has(pipeline.name)) throw new MillraceError("PIPELINE_TWICE", { name: pipeline.name });
    byName.set(pipeline.name, pipeline);
  }
  const of = (table: string) => pipelines.filter((p) => p.table === table);
  return {
    pipelines,
    manifest: manifestOf(pipelines),
    tables: [...new Set(pipelines.map((p) => p.table))].sort(),
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
