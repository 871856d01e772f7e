import type { IntentPatch, PipelineTable } from "../define/columns.ts";
import type { Registry } from "../define/registry.ts";
import { jsonValue } from "../engine/changes.ts";
import { sendHints } from "../engine/hint.ts";
import { isUuid } from "../engine/item.ts";
import type { Database, HintQueue } from "../engine/ports.ts";
import { MillraceError } from "../errors.ts";
import { requestSql } from "../sql/request.ts";

/** For code outside pipelines that changes their rows. */
export interface Writer<DB> {
  /**
   * Stores what somebody wants of a row, held or not, and makes the row due at once: free, held, backed off or dead
   * alike. A pass that runs at this moment is followed by another. Hints the pipelines of the table.
   * @throws ID_MALFORMED, TABLE_UNKNOWN, NO_SUCH_ROW
   */
  request<T extends PipelineTable<DB>>(table: T, id: string, intent: IntentPatch<DB, T>): Promise<void>;
}

export interface WriterOptions {
  readonly database: Database;
  readonly registry: Registry;
  readonly hints: HintQueue;
}

export function createWriter<DB>({ database, registry, hints }: WriterOptions): Writer<DB> {
  return {
    async request(table, id, intent) {
      if (!isUuid(id)) throw new MillraceError("ID_MALFORMED", { id });
      const pipelines = registry.of(table);
      if (pipelines.length === 0)
        throw new MillraceError("TABLE_UNKNOWN", { table, registered: registry.tables.join(", ") });
      const values = Object.fromEntries(Object.entries(intent).map(([column, value]) => [column, jsonValue(value)]));
      const { rows } = await database.run(requestSql(table, pipelines, [id], values), { patient: true });
      if (rows.length === 0) throw new MillraceError("NO_SUCH_ROW", { table, id });
      await sendHints(
        hints,
        pipelines.map((p) => p.name),
      );
    },
  };
}
