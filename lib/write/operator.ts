import type { Registry } from "../define/registry.ts";
import { sendHints } from "../engine/hint.ts";
import type { Database, HintQueue } from "../engine/ports.ts";
import { type PipelineStatus, pauseSql, resumeSql, statusSql } from "../sql/operate.ts";

export type { PipelineStatus } from "../sql/operate.ts";

/** What an operator does to pipelines. */
export interface Operator {
  /** Stops the fetcher of a pipeline; what is queued already still runs. @throws PIPELINE_UNKNOWN */
  pause(pipeline: string, by?: string): Promise<void>;
  /** Lets it go on, and hints it. @throws PIPELINE_UNKNOWN */
  resume(pipeline: string): Promise<void>;
  status(): Promise<readonly PipelineStatus[]>;
}

export function createOperator(options: {
  readonly database: Database;
  readonly registry: Registry;
  readonly hints: HintQueue;
}): Operator {
  const { database, registry, hints } = options;
  return {
    async pause(pipeline, by) {
      await database.run(pauseSql(registry.get(pipeline).name, by ?? null), { patient: true });
    },
    async resume(pipeline) {
      await database.run(resumeSql(registry.get(pipeline).name), { patient: true });
      await sendHints(hints, [pipeline]);
    },
    async status() {
      return (await database.run(statusSql())).rows.filter((row) => registry.has(row.name));
    },
  };
}
