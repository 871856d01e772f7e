import type { Context } from "aws-lambda";
import { handle, type LambdaEvent } from "hono/aws-lambda";
import { createHints, createOperator, createWriter } from "../lib/index.ts";
import { createApp } from "./api/app.ts";
import { createPipelineControl } from "./api/pipeline-control.ts";
import { createVolumeRows } from "./api/volume-rows.ts";
import { pipelines } from "./pipelines/index.ts";
import type { Database } from "./pipelines/schema.ts";
import { database, hintQueue, logger } from "./ports.ts";

/** Answers one HTTP request that came by the function's URL. */
export async function handler(event: LambdaEvent, context: Context) {
  logger.addContext(context);
  const db = database(context);
  const queue = hintQueue();
  const registry = pipelines;
  const hints = createHints(registry, queue);
  const app = createApp({
    volumes: createVolumeRows({
      database: db,
      writer: createWriter<Database>({ database: db, registry, hints: queue }),
      hints,
    }),
    pipelines: createPipelineControl({
      database: db,
      registry,
      operator: createOperator({ database: db, registry, hints: queue }),
      hints,
    }),
    logError: (reference, error) => logger.error("request failed", { reference, error: error as Error }),
  });
  return handle(app)(event);
}
