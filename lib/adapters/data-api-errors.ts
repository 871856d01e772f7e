/**
 * What a failed Data API call means for what may be done next.
 * - `again`: certainly not executed, or rolled back whole; repeat it.
 * - `resuming`: certainly not executed, the database wakes up; repeat it with patience.
 * - `lockTimeout`: rolled back, because somebody holds a row; repeat it, or split the batch.
 * - `unanswered`: nobody knows; repeat only what is safe to send twice.
 * - `failed`: executed and refused by PostgreSQL; a repetition would fail the same way.
 * - `refused`: the service refused the call.
 */
export type Failure = "again" | "resuming" | "lockTimeout" | "unanswered" | "failed" | "refused";

export interface Classified {
  readonly failure: Failure;
  readonly sqlState: string | undefined;
  readonly message: string;
}

/** deadlock_detected, serialization_failure: the whole statement rolled back. */
const ROLLED_BACK = new Set(["40P01", "40001"]);
const LOCK_NOT_AVAILABLE = "55P03";
/** cannot_connect_now, too_many_connections, no connection, connection rejected: no session was had. */
const NO_SESSION = new Set(["57P03", "53300", "08001", "08004"]);
/** admin_shutdown, crash_shutdown and broken connections: the session went away with the statement. */
const SESSION_GONE = /^(57P0[12]|08...)$/;

/** Errors of the service after which it is not known whether the statement ran. */
const UNANSWERED = new Set([
  "InternalServerErrorException",
  "InternalFailure",
  "ServiceUnavailableError",
  "DatabaseUnavailableException",
  "StatementTimeoutException",
  "TimeoutError",
  "AbortError",
]);

/** Errors of a connection that was never made. */
const NOT_CONNECTED = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);

interface ErrorLike {
  readonly name?: string;
  readonly message?: string;
  readonly code?: string;
  readonly $metadata?: { readonly httpStatusCode?: number };
}

/**
 * Classifies by `name`, never by class: errors outside the service model have none.
 * https://docs.aws.amazon.com/rdsdataservice/latest/APIReference/API_ExecuteStatement.html
 */
export function classify(error: unknown): Classified {
  const { name = "", message = String(error), code = "", $metadata } = (error ?? {}) as ErrorLike;
  // the state stands at the end; a value in Detail may hold the same words
  const sqlState = /SQLState: ([0-9A-Z]{5})\s*$/.exec(message)?.[1];
  const as = (failure: Failure): Classified => ({ failure, sqlState, message: withoutValues(message, sqlState) });
  if (name === "DatabaseResumingException") return as("resuming");
  if (name === "ThrottlingException" || name === "TooManyRequestsException" || $metadata?.httpStatusCode === 429)
    return as("again");
  if (NOT_CONNECTED.has(code) || /did not establish a connection|socket timed out while establishing/i.test(message))
    return as("again");
  if (sqlState !== undefined) {
    if (ROLLED_BACK.has(sqlState) || NO_SESSION.has(sqlState)) return as("again");
    if (SESSION_GONE.test(sqlState)) return as("unanswered");
    return as(sqlState === LOCK_NOT_AVAILABLE ? "lockTimeout" : "failed");
  }
  const status = $metadata?.httpStatusCode;
  // too large or malformed by what one item brought along: a batch is split over it
  if (name === "UnsupportedResultException" || name === "ValidationException" || status === 413) return as("failed");
  if (UNANSWERED.has(name) || (status !== undefined && status >= 500)) return as("unanswered");
  // no status: the connection broke after the request was sent
  return as(status === undefined ? "unanswered" : "refused");
}

/** data_exception: PostgreSQL quotes the value that is wrong, and the service the one that it cannot parse. */
const QUOTES_VALUES = /^22/;

/** A message without the values that it quotes: they are a row's or a caller's, and errors go into logs. */
function withoutValues(message: string, sqlState: string | undefined): string {
  const where = message.replace(/; Where: .*?(?=; (?:Position|SQLState): )/s, "");
  const quotes = sqlState === undefined ? /^Cannot parse /.test(message) : QUOTES_VALUES.test(sqlState);
  return quotes ? where.replace(/".*"/s, '"…"') : where;
}
