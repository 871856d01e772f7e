import type { Context, SQSBatchResponse, SQSEvent } from "aws-lambda";
import { workBatch } from "../lib/index.ts";
import { cloudFromEnvironment } from "./cloud/choose.ts";
import { pipelines } from "./pipelines/index.ts";
import { logger, portsOf } from "./ports.ts";

/** Processes the items of a batch; only messages whose claim did not reach the database are delivered again. */
export async function handler(event: SQSEvent, context: Context): Promise<SQSBatchResponse> {
  logger.addContext(context);
  const worker = `${context.functionName} ${context.logStreamName}`;
  const keep = await workBatch(
    pipelines,
    event.Records,
    { cloud: cloudFromEnvironment(process.env) },
    worker,
    portsOf(context),
  );
  return { batchItemFailures: keep.map((itemIdentifier) => ({ itemIdentifier })) };
}
