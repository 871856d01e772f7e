import type { Context } from "aws-lambda";
import type { LambdaEvent } from "hono/aws-lambda";
import { createApp } from "./api/app.ts";
import { errorLine } from "./api/error-line.ts";
import { answerEvent } from "./api/event.ts";
import { createApiPorts } from "./api/ports.ts";
import { cloudFromEnvironment } from "./cloud/choose.ts";
import { pipelines } from "./pipelines/index.ts";
import { database, hintQueue, logger } from "./ports.ts";

/** Answers one HTTP request that came by the function's URL. */
export async function handler(event: LambdaEvent, context: Context) {
  logger.addContext(context);
  const ports = createApiPorts({
    database: database(context),
    registry: pipelines,
    hintQueue: hintQueue(),
    cloud: () => cloudFromEnvironment(process.env),
    logError: (reference, error) => logger.error("request failed", { reference, ...errorLine(error) }),
  });
  return answerEvent(createApp(ports), event);
}
