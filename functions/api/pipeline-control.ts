import { sql } from "kysely";
import type { Database, Hints, Operator, Pipeline, PipelineStatus, Registry } from "../../lib/index.ts";
import type { PipelineJson } from "./json.ts";

/** Looks at pipelines and steers them. */
export interface PipelineControl {
  list(): Promise<readonly PipelineJson[]>;
  /** @throws PIPELINE_UNKNOWN */
  pause(name: string, by: string): Promise<PipelineJson>;
  /** @throws PIPELINE_UNKNOWN */
  resume(name: string): Promise<PipelineJson>;
  /** @throws PIPELINE_UNKNOWN, TABLE_UNKNOWN */
  hint(target: { readonly pipeline: string } | { readonly table: string }): Promise<void>;
}

export interface PipelineControlOptions {
  readonly database: Database;
  readonly registry: Registry;
  readonly operator: Operator;
  readonly hints: Hints;
}

/** Rows that are due are counted up to here: beyond it, the exact number is not worth its price. */
const MOST_DUE = 10_000;

export function createPipelineControl({
  database,
  registry,
  operator,
  hints,
}: PipelineControlOptions): PipelineControl {
  async function list() {
    const [statuses, due] = await Promise.all([operator.status(), countDue(database, registry.pipelines)]);
    return registry.pipelines.map((pipeline) => {
      const status = statuses.find(({ name }) => name === pipeline.name);
      return pipelineJson(pipeline, status, due.get(pipeline.name) ?? 0);
    });
  }
  const one = async (name: string) => (await list()).find((pipeline) => pipeline.name === name)!;
  return {
    list,
    async pause(name, by) {
      await operator.pause(name, by);
      return one(name);
    },
    async resume(name) {
      await operator.resume(name);
      return one(name);
    },
    async hint(target) {
      await hints.send(target);
    },
  };
}

async function countDue(database: Database, pipelines: readonly Pipeline[]): Promise<ReadonlyMap<string, number>> {
  const counts = pipelines.map(({ name, table, states }) => {
    // The words of the fetch index's predicate, so that the count reads that index.
    const ready = sql.raw(states.map((state) => `(${state.ready.aliased})`).join(" or "));
    return sql`select ${sql.lit(name)} as name, (select count(*)::int from (select 1 from ${sql.table(table)} t
where (${ready}) and t.due_at <= now() and (t.lock_expires_at is null or t.lock_expires_at < now()) limit ${sql.lit(MOST_DUE)}) d) as due`;
  });
  const query = sql<{ name: string; due: number }>`/* millrace:due all */ ${sql.join(counts, sql` union all `)}`;
  const { rows } = await database.run({ name: "due all", query });
  return new Map(rows.map(({ name, due }) => [name, due]));
}

/** A pipeline that no migration has registered yet has no status: it runs nothing. */
function pipelineJson({ name, table }: Pipeline, status: PipelineStatus | undefined, due: number): PipelineJson {
  return {
    name,
    table,
    pausedAt: status?.paused_at?.toISOString() ?? null,
    pausedBy: status?.paused_by ?? null,
    fetchedAt: status?.fetched_at?.toISOString() ?? null,
    inFlight: {
      locked: status?.locked ?? 0,
      queued: status?.queued ?? 0,
      processing: status?.processing ?? 0,
    },
    due,
    failed: status?.failed ?? 0,
    dead: status?.dead ?? 0,
  };
}
