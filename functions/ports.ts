import { Logger } from "@aws-lambda-powertools/logger";
import { Metrics } from "@aws-lambda-powertools/metrics";
import { RDSDataClient } from "@aws-sdk/client-rds-data";
import { SQSClient } from "@aws-sdk/client-sqs";
import type { Context } from "aws-lambda";
import {
  callLimiter,
  type DataApiDatabase,
  dataApi,
  type HintQueue,
  type Ports,
  powertoolsEvents,
  required,
  sqsHintQueue,
  sqsItemQueue,
  stringMap,
  systemClock,
  wholeNumber,
} from "../lib/index.ts";
import type { Database } from "./pipelines/schema.ts";

/*
 * What a sandbox keeps between invocations: clients with their connections, and nothing of any invocation.
 */
const once = <T>(make: () => T): (() => T) => {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
};

export const logger = new Logger();
const metrics = new Metrics();
const events = powertoolsEvents(logger, metrics);

// one attempt a call: what may be repeated is decided by the engine; a connection is there within 2 s or not at all
const rdsData = once(() => new RDSDataClient({ maxAttempts: 1, requestHandler: { connectionTimeout: 2_000 } }));
// queue URLs name a host of their own, which a configured endpoint must win over
const sqs = once(() => new SQSClient({ useQueueUrlAsEndpoint: false, requestHandler: { connectionTimeout: 2_000 } }));
const limiter = once(() => callLimiter(wholeNumber("CALLS_IN_FLIGHT", 2)));

const timeLeftOf = (context: Context | undefined) => () =>
  context === undefined ? Number.POSITIVE_INFINITY : context.getRemainingTimeInMillis();

/** The application's database, as the role of this function's secret sees it. */
export function database(context?: Context): DataApiDatabase<Database> {
  return dataApi<Database>({
    client: rdsData(),
    limiter: limiter(),
    resourceArn: required("DATABASE_CLUSTER_ARN"),
    secretArn: required("DATABASE_SECRET_ARN"),
    database: required("DATABASE_NAME"),
    timeLeft: timeLeftOf(context),
  });
}

export const hintQueue = (): HintQueue => sqsHintQueue(sqs(), required("HINT_QUEUE_URL"), systemClock, events);

/** Everything the engine needs for one invocation; only a fetcher wakes heartbeaters. */
export function portsOf(context: Context, wakeHeartbeater: Ports["wakeHeartbeater"] = async () => {}): Ports {
  const db = database(context);
  return {
    database: db,
    reader: { selectFrom: db.kysely.selectFrom.bind(db.kysely) },
    // a worker sends no items, and knows no queue to send them to
    items: sqsItemQueue(
      sqs(),
      process.env["ITEM_QUEUE_URLS"] === undefined ? {} : stringMap("ITEM_QUEUE_URLS"),
      systemClock,
    ),
    hints: hintQueue(),
    wakeHeartbeater,
    events,
    clock: systemClock,
    random: Math.random,
    timeLeft: timeLeftOf(context),
  };
}
