import { MillraceError } from "../errors.ts";
import type { Answered } from "./ports.ts";

/** PostgreSQL classes "data exception" and "integrity constraint violation": one item's values are wrong. */
const DATA_ERROR = /^2[23]/;
const LOCK_TIMEOUT = "55P03";

/** The answer for one item, or why there is none. */
export type Outcome<Row> =
  | { readonly row: Row; readonly unanswered: boolean }
  | { readonly error: MillraceError; readonly unanswered: boolean };

/**
 * Runs one statement for a whole batch. Where a lock timeout or one item's bad data stops the batch, it is repeated item
 * by item, at once and side by side: the others are delayed by one lock timeout, and only the culprit fails.
 */
export async function inBatch<Input, Row>(
  inputs: readonly Input[],
  run: (inputs: readonly Input[], patient: boolean) => Promise<Answered<Row>>,
  rowOf: (input: Input, rows: readonly Row[]) => Row | undefined,
): Promise<readonly Outcome<Row>[]> {
  if (inputs.length === 0) return [];
  try {
    const { rows, unanswered } = await run(inputs, inputs.length === 1);
    return inputs.map((input) => {
      const row = rowOf(input, rows);
      return row === undefined
        ? {
            error: new MillraceError("STATEMENT_FAILED", { statement: "batch", message: "no answer for an item" }),
            unanswered,
          }
        : { row, unanswered };
    });
  } catch (cause) {
    const error = asError(cause);
    const unanswered = error.details["unanswered"] === true || error.code === "DATABASE_UNANSWERED";
    if (inputs.length === 1 || !splits(error)) return inputs.map(() => ({ error, unanswered }));
    const singles = await Promise.all(inputs.map((input) => inBatch([input], run, rowOf)));
    return singles.flat().map((outcome) => ({ ...outcome, unanswered: outcome.unanswered || unanswered }));
  }
}

function splits({ code, details }: MillraceError): boolean {
  if (code !== "STATEMENT_FAILED") return false;
  const sqlState = String(details["sqlState"] ?? "");
  // an answer too large for one call fits when it is asked for piece by piece
  return sqlState === LOCK_TIMEOUT || DATA_ERROR.test(sqlState) || sqlState === "";
}

const asError = (cause: unknown): MillraceError =>
  cause instanceof MillraceError
    ? cause
    : new MillraceError("STATEMENT_FAILED", { statement: "batch", message: String(cause) }, { cause });
