/**
 * Every error that Millrace throws on purpose: one code each, with a sentence that says what to do.
 * `status` is the HTTP status an API should answer with.
 */
export const ERRORS = {
  PIPELINE_NAME: { status: 500, text: "{name} is not a pipeline name: use a-z, 0-9 and -, starting with a letter" },
  PIPELINE_TWICE: { status: 500, text: "two pipelines are called {name}: give one of them another name" },
  PIPELINE_UNKNOWN: { status: 404, text: "no pipeline is called {name}; registered: {registered}" },
  TABLE_UNKNOWN: { status: 404, text: "no pipeline works on table {table}; tables with pipelines: {registered}" },
  NO_STATES: { status: 500, text: "pipeline {name} has no states: list at least one" },
  OPTION: { status: 500, text: "{name}: {option} is {value}, but must be {expected}" },
  OPTION_RELATION: { status: 500, text: "{name}: {left} ({leftValue}) must be {relation} {right} ({rightValue})" },
  CONNECTION_BUDGET: {
    status: 500,
    text: "connections: {sum} are needed ({parts}), the budget is {budget}: lower workers or concurrency, or raise the budget",
  },
  READY_NOT_IMMUTABLE: {
    status: 500,
    text: "{name}: ready calls {function}(), which changes with time and cannot stand in an index; use the answer's due for a date",
  },
  READY_EMPTY: { status: 500, text: "{name}: ready names no column of its table" },
  LOCK_OWN_TABLE: {
    status: 500,
    text: "{name} locks rows of {table}, its own table, as related rows: a pass holds one row of its table",
  },
  LOCK_TABLE_TWICE: { status: 500, text: "{name} has two locks on {table}: a state locks a table once" },
  LOCK_UNKNOWN: { status: 500, text: "{name} has no lock called {lock}; it has: {locks}" },
  YIELD_KIND: { status: 500, text: "{name}: yieldTo takes parent(table, column), not {kind}" },
  YIELD_UNKNOWN: {
    status: 500,
    text: "{name} yields to {table}, but no pipeline over {table} locks {children} as its children",
  },
  RELATED_GONE: { status: 409, text: "{table} has no row {ids}, which {pipeline} {id} names" },
  RELATED_CHANGE: { status: 500, text: "{pipeline}: {id} is no row of {table} that this pass has locked" },
  REQUEST_OWN: {
    status: 500,
    text: "{pipeline} asks something of {table} {id}, which its pass holds: use set or related",
  },
  ROW_LOCKED: { status: 423, text: "{table} {id} is held; waited {seconds} s. Try again" },
  NAME_TAKEN: { status: 409, text: "{namespace} has a {name} already" },
  ITEM_MALFORMED: { status: 400, text: "this is no item message: {reason}" },
  HINT_MALFORMED: { status: 400, text: "this is no hint message: {reason}" },
  CURSOR_MALFORMED: { status: 400, text: "this is no cursor of a list: start again without one" },
  PAGE_ROW_TWICE: {
    status: 500,
    text: "the list answers {table} {id} more than once: select the rows joined to it as a list, with jsonArrayFrom",
  },
  PAGE_INDEX: { status: 500, text: "the list of {table} {problem}; it needs: {index}" },
  ID_MALFORMED: { status: 400, text: "{id} is no uuid" },
  NO_SUCH_ROW: { status: 404, text: "{table} has no row {id}" },
  PATCH_COLUMN: { status: 500, text: "{pipeline} may not write {column} of {table}: it belongs to the engine" },
  ANSWER: { status: 500, text: "{pipeline}: process answered {answer}; it must return apply({...}) or retry(reason)" },
  PROCESS_TIMEOUT: { status: 500, text: "processing took longer than {seconds} s" },
  LOCK_LOST: { status: 500, text: "the lock of {pipeline} {id} was lost: somebody else goes on with the row" },
  WORKER_ENDS: { status: 500, text: "the function ends before {pipeline} {id} is done" },
  DATABASE_RESUMING: { status: 503, text: "the database is resuming after a pause; try again in a few seconds" },
  DATABASE_UNANSWERED: { status: 503, text: "{statement} got no answer in time; whether it ran is not known" },
  DATABASE_REFUSED: { status: 503, text: "{statement} was refused: {message}" },
  STATEMENT_FAILED: { status: 500, text: "{statement} failed: {message}" },
  VALUE_UNSUPPORTED: { status: 500, text: "a value of type {type} cannot be sent to the database" },
  ENVIRONMENT: { status: 500, text: "environment variable {variable} is {problem}" },
  ROW_FENCED: { status: 409, text: "{statement} goes past a lock: {message}" },
  FENCE_COLUMN: { status: 500, text: "the fence of {table}: {columns} {problem}" },
  MIGRATION_LOCKED: { status: 503, text: "another migration holds the lock until {until}; waited {seconds} s" },
  MIGRATION_LOCK_LOST: { status: 500, text: "the migration lock was lost to another run; nothing more was done" },
  MIGRATION_FAILED: { status: 500, text: "migration {migration} failed: {message}" },
  COLUMN_MISSING: {
    status: 500,
    text: "{table} lacks {columns}: add them in a migration; addPipelineColumns() adds those that pipelines and locks need",
  },
  COLUMN_TYPE: {
    status: 500,
    text: "{table}: the Data API cannot read {columns}; use another type, such as text or a number of seconds",
  },
  INDEX_BUILD: { status: 500, text: "index {index} could not be built: {message}" },
} as const satisfies Record<string, { readonly status: number; readonly text: string }>;

export type ErrorCode = keyof typeof ERRORS;

/** The database ran a statement and refused it: nothing was written, and a repetition would be refused as well. */
export const isRefusal = (code: ErrorCode): boolean => code === "STATEMENT_FAILED" || code === "ROW_FENCED";

/** An error with a code of {@link ERRORS}; `details` fill the sentence, `cause` keeps the original error. */
export class MillraceError extends Error {
  readonly code: ErrorCode;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, details: Readonly<Record<string, unknown>> = {}, options?: ErrorOptions) {
    super(fill(ERRORS[code].text, details), options);
    this.name = "MillraceError";
    this.code = code;
    this.details = details;
  }

  /** The HTTP status that fits. */
  get status(): number {
    return ERRORS[this.code].status;
  }
}

function fill(text: string, details: Readonly<Record<string, unknown>>): string {
  return text.replace(/\{(\w+)\}/g, (_, name: string) => shown(details[name]));
}

/** A value in a sentence; one that cannot be text is told by its type. */
function shown(value: unknown): string {
  try {
    return String(value ?? "?");
  } catch {
    return typeof value;
  }
}
