import { LambdaClient } from "@aws-sdk/client-lambda";
import type { Context, SQSEvent } from "aws-lambda";
import { fetchHinted, fetchMemory, fetchPipeline, lambdaHeartbeater, required } from "../lib/index.ts";
import { pipelines } from "./pipelines/index.ts";
import { logger, portsOf } from "./ports.ts";

/** How recently this process looked; a cache, whose loss costs a fetch too many. */
const memory = fetchMemory();

const lambda = new LambdaClient({ requestHandler: { connectionTimeout: 2_000 } });

/** Started by the schedule for every pipeline, and by hints for those that they name. */
export async function handler(event: SQSEvent | { readonly millrace: "schedule" }, context: Context): Promise<void> {
  logger.addContext(context);
  const ports = portsOf(context, lambdaHeartbeater(lambda, required("HEARTBEATER_FUNCTION_NAME")));
  if ("Records" in event) {
    const hints = event.Records.map(({ messageId, body, attributes }) => ({
      messageId,
      body,
      sentAt: Number(attributes.SentTimestamp),
    }));
    await fetchHinted(pipelines, hints, ports, memory);
  } else {
    await Promise.all(
      pipelines.pipelines.map(({ name }) => fetchPipeline(pipelines, name, ports, { scheduled: true })),
    );
  }
}
