import type { Registry } from "../define/registry.ts";
import { sendHints } from "../engine/hint.ts";
import { isUuid } from "../engine/item.ts";
import type { Database, HintQueue } from "../engine/ports.ts";
import { MillraceError } from "../errors.ts";
import { type PipelineStatus, pauseSql, resumeSql, statusSql } from "../sql/operate.ts";
import { type Orphan, orphansSql, settleOrphanSql } from "../sql/orphan.ts";

export type { PipelineStatus } from "../sql/operate.ts";
export type { Orphan } from "../sql/orphan.ts";

/** What an operator does to pipelines. */
export interface Operator {
  /** Stops the fetcher of a pipeline; what is queued already still runs. @throws PIPELINE_UNKNOWN */
  pause(pipeline: string, by?: string): Promise<void>;
  /** Lets it go on, and hints it. @throws PIPELINE_UNKNOWN */
  resume(pipeline: string): Promise<void>;
  status(): Promise<readonly PipelineStatus[]>;
  /** What lost applies may have left behind at providers, newest first, as the states' `orphan` names it. @default 100 */
  orphans(limit?: number): Promise<readonly Orphan[]>;
  /** Somebody has looked after it, by the token of the pass: false when it is not listed. */
  settleOrphan(token: string): Promise<boolean>;
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
    async orphans(limit = 100) {
      return (await database.run(orphansSql(limit))).rows;
    },
    async settleOrphan(token) {
      if (!isUuid(token)) throw new MillraceError("ID_MALFORMED", { id: token });
      return (await database.run(settleOrphanSql(token), { patient: true })).rows.length > 0;
    },
    async status() {
      return (await database.run(statusSql())).rows.filter((row) => registry.has(row.name));
    },
  };
}
