import type { Context } from "aws-lambda";
import { heartbeatLoop } from "../lib/index.ts";
import { pipelines } from "./pipelines/index.ts";
import { logger, portsOf } from "./ports.ts";

/** Started by the schedule, and by a fetcher that finds no heartbeater alive. */
export async function handler(_event: { readonly millrace: "schedule" | "invoke" }, context: Context): Promise<void> {
  logger.addContext(context);
  await heartbeatLoop(pipelines, portsOf(context));
}
