import { type Clock, createWriter, type DataApiDatabase, type Writer } from "../../lib/index.ts";
import type { RelatedEngine, RelatedSchema } from "./related-tables.ts";

export interface TestWriter extends Writer<RelatedSchema> {
  /** Pipelines hinted so far, each once. */
  hinted(): readonly string[];
}

/** A writer over the related tables, by the application's role; waits by the process's own time unless given a clock. */
export function writerOn(engine: RelatedEngine, clock?: Clock, database?: DataApiDatabase<RelatedSchema>): TestWriter {
  const bodies: string[] = [];
  const writer = createWriter<RelatedSchema>({
    database: database ?? (engine.api as unknown as DataApiDatabase<RelatedSchema>),
    registry: engine.registry,
    hints: { send: async (hints) => void bodies.push(...hints.map((h) => h.body)) },
    ...(clock === undefined ? {} : { clock }),
  });
  return { ...writer, hinted: () => [...new Set(bodies.map((b) => String(JSON.parse(b).pipeline)))].sort() };
}

/** A database that runs everything twice, as after a lost answer, and reports the second answer. */
export function twice<DB>(database: DataApiDatabase<DB>): DataApiDatabase<DB> {
  return {
    ...database,
    async run(statement, options) {
      await database.run(statement, options);
      return { ...(await database.run(statement, options)), unanswered: true };
    },
  };
}
