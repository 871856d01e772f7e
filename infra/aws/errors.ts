/** Every error that synthesis can raise for a broken setting, with what it means. */
export const infraErrors = {
  UNKNOWN_STAGE: "the stage asked for is not in infra/settings.ts",
  NUMBER: "a setting is no number that AWS takes",
  SCHEDULE_PERIOD: "a schedule needs a whole number of minutes",
  AUTO_PAUSE: "the database would be scheduled awake, so it could never pause",
  EC2_SETTINGS: "the ec2 cloud is not told, or not rightly, what its instances are and where",
  DUPLICATE_NAME: "two functions or two queues of the template have one name",
  FUNCTION_TIMEOUT: "a function cannot run longer than Lambda allows",
  MAX_CONCURRENCY: "an event source mapping cannot run fewer than two or more than a thousand functions",
  BATCH_SIZE: "an event source mapping without a batching window takes 1 to 10 messages",
  RESERVED_CONCURRENCY: "a function is reserved fewer places than are taken by what invokes it",
  UNBOUNDED_FUNCTION: "a function that calls the database has no limit of concurrency",
  VISIBILITY: "a message would become visible again while it is still worked on",
  RETENTION: "a dead-letter queue would drop a message before anybody could look at it",
  RECEIVE_COUNT: "a few throttled receives would count as failures",
  NO_DEAD_LETTERS: "a queue has nowhere to put a message that cannot be handled",
  TRIGGER_TIMEOUT: "the deployment would stop waiting before the migration's own timeout",
} as const;

export type InfraErrorCode = keyof typeof infraErrors;

/** A broken relation between settings. The message holds the numbers and what to change. */
export class InfraError extends Error {
  readonly code: InfraErrorCode;

  constructor(code: InfraErrorCode, message: string) {
    super(`${code}: ${message}`);
    this.name = "InfraError";
    this.code = code;
  }
}
