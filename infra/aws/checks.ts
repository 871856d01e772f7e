import { InfraError } from "./errors.ts";

/** A function, the queue it empties and the queue that takes what it cannot handle, as numbers. Times in seconds. */
export interface Consumer {
  readonly name: string;
  readonly functionTimeout: number;
  readonly reservedConcurrency?: number;
  /** Invocations besides those for this queue, such as the schedule's. */
  readonly otherCallers: number;
  readonly maxConcurrency: number;
  readonly batchSize: number;
  readonly window: number;
  readonly visibility: number;
  readonly retention: number;
  readonly receiveCount: number;
  readonly deadLetterRetention: number;
}

/** Lambda's own limit. */
const longestFunctionSeconds = 900;
/** Advised by AWS for a function that reads a queue: throttled deliveries wait for their turn inside this time. */
const visibilityFactor = 6;
const fewestReceives = 5;

/** How long a message must stay invisible while a function with this timeout works on it. Seconds. */
export function visibilityFor(functionTimeout: number, window: number): number {
  return visibilityFactor * functionTimeout + window;
}

/** Throws the first relation that does not hold, with its numbers. */
export function checkConsumer(consumer: Consumer): void {
  const { name, functionTimeout, maxConcurrency, batchSize, window, visibility } = consumer;
  checkFunctionTimeout(name, functionTimeout);
  if (maxConcurrency < 2 || maxConcurrency > 1000) {
    throw new InfraError(
      "MAX_CONCURRENCY",
      `${name} asks for ${maxConcurrency} functions at once; an event source mapping takes 2 to 1000: change its workers or its batch size`,
    );
  }
  if (batchSize < 1 || batchSize > 10) {
    throw new InfraError("BATCH_SIZE", `${name} asks for batches of ${batchSize} messages; 1 to 10 fit one receive`);
  }
  const needed = visibilityFor(functionTimeout, window);
  if (visibility < needed) {
    throw new InfraError(
      "VISIBILITY",
      `queue ${name} hides a message for ${visibility} s; its function's timeout of ${functionTimeout} s and a window of ${window} s need ${visibilityFactor} × ${functionTimeout} + ${window} = ${needed} s`,
    );
  }
  checkReservation(consumer);
  checkDeadLetters(consumer);
}

function checkReservation({ name, reservedConcurrency, maxConcurrency, otherCallers }: Consumer): void {
  const callers = maxConcurrency + otherCallers;
  if (reservedConcurrency === undefined || reservedConcurrency >= callers) return;
  throw new InfraError(
    "RESERVED_CONCURRENCY",
    `${name} is reserved ${reservedConcurrency} places, but its queue takes ${maxConcurrency} and other callers ${otherCallers}: reserve at least ${callers}, or throttled messages count as received`,
  );
}

function checkDeadLetters({ name, receiveCount, retention, deadLetterRetention }: Consumer): void {
  if (receiveCount < fewestReceives) {
    throw new InfraError(
      "RECEIVE_COUNT",
      `queue ${name} gives up on a message after ${receiveCount} receives; throttled ones count, so allow at least ${fewestReceives}`,
    );
  }
  if (deadLetterRetention <= retention) {
    throw new InfraError(
      "RETENTION",
      `queue ${name} keeps messages for ${retention} s and its dead-letter queue for ${deadLetterRetention} s; the age of a message goes on counting there, so keep dead letters longer`,
    );
  }
}

/** Throws `FUNCTION_TIMEOUT` for a timeout that Lambda does not allow. */
export function checkFunctionTimeout(name: string, seconds: number): void {
  if (seconds >= 1 && seconds <= longestFunctionSeconds) return;
  throw new InfraError(
    "FUNCTION_TIMEOUT",
    `${name} asks for a timeout of ${seconds} s; Lambda allows 1 to ${longestFunctionSeconds} s: shorten its process timeout`,
  );
}
