import { MillraceError } from "../errors.ts";
import type { Answered } from "./ports.ts";

/**
 * PostgreSQL error classes that come of what one answer says: data exception, integrity constraint violation, unknown
 * columns and the like, check option violation, and what a trigger raises.
 */
const DATA_ERROR = /^(22|23|42|44|P0)/;
const LOCK_TIMEOUT = "55P03";

/** The answer for one item, or why there is none. */
export type Outcome<Row> =
  | { readonly row: Row; readonly unanswered: boolean }
  | { readonly error: MillraceError; readonly unanswered: boolean };

export interface BatchCall<Input, Row> {
  /** `patient`: repeat lock timeouts until the time is up. */
  readonly run: (inputs: readonly Input[], patient: boolean) => Promise<Answered<Row>>;
  readonly rowOf: (input: Input, rows: readonly Row[]) => Row | undefined;
  /** Called with those whose outcome is known, as soon as it is: a batch-mate does not wait for a slow one. */
  readonly settle: (inputs: readonly Input[], outcomes: readonly Outcome<Row>[]) => Promise<void>;
}

/**
 * Runs one statement for a whole batch. Where a lock timeout or one item's bad data stops the batch, it is repeated item
 * by item, side by side: the others are delayed by one lock timeout, and only the culprit waits or fails.
 */
export async function inBatch<Input, Row>(inputs: readonly Input[], call: BatchCall<Input, Row>): Promise<void> {
  if (inputs.length === 0) return;
  const tried = await tryBatch(inputs, call);
  if (Array.isArray(tried)) return call.settle(inputs, tried);
  await Promise.all(
    inputs.map(async (input) => {
      const single = await tryBatch([input], call);
      const outcomes = Array.isArray(single) ? single : [single];
      const unanswered = tried.unanswered;
      await call.settle(
        [input],
        outcomes.map((o) => ({ ...o, unanswered: o.unanswered || unanswered })),
      );
    }),
  );
}

/** The outcomes of all, or the one error that splits the batch. */
async function tryBatch<Input, Row>(
  inputs: readonly Input[],
  { run, rowOf }: BatchCall<Input, Row>,
): Promise<Outcome<Row>[] | { readonly error: MillraceError; readonly unanswered: boolean }> {
  try {
    const { rows, unanswered } = await run(inputs, inputs.length === 1);
    return inputs.map((input) => {
      const row = rowOf(input, rows);
      return row === undefined ? { error: noAnswer(), unanswered } : { row, unanswered };
    });
  } catch (cause) {
    const error = asError(cause);
    const unanswered = error.details["unanswered"] === true || error.code === "DATABASE_UNANSWERED";
    if (inputs.length > 1 && (isLockTimeout(error) || isDataError(error))) return { error, unanswered };
    return inputs.map(() => ({ error, unanswered }));
  }
}

export const isLockTimeout = ({ code, details }: MillraceError): boolean =>
  code === "STATEMENT_FAILED" && details["sqlState"] === LOCK_TIMEOUT;

/** Also a write past a fence, and an answer that is too large for one call: it fits when it is asked for piece by piece. */
export const isDataError = ({ code, details }: MillraceError): boolean =>
  code === "ROW_FENCED" ||
  (code === "STATEMENT_FAILED" && (details["sqlState"] === undefined || DATA_ERROR.test(String(details["sqlState"]))));

const noAnswer = () => new MillraceError("STATEMENT_FAILED", { statement: "batch", message: "no answer for an item" });

const asError = (cause: unknown): MillraceError =>
  cause instanceof MillraceError
    ? cause
    : new MillraceError("STATEMENT_FAILED", { statement: "batch", message: String(cause) }, { cause });
