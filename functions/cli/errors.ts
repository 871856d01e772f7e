/** What the command line tells its caller by its exit code. */
export const EXIT = { ok: 0, failed: 1, usage: 2, notFound: 3, locked: 4, noStack: 5 } as const;
export type Exit = (typeof EXIT)[keyof typeof EXIT];

/** The command line's own errors; those of the API are shown as it words them. */
export const CLI_ERRORS = {
  NO_STACK: {
    exit: EXIT.noStack,
    text: "no stack runs in {dir}: start one with npm start, or name its folder with --state-dir",
  },
  STACK_FILE: { exit: EXIT.noStack, text: "{file} {problem}: stop the stack and start it again with npm start" },
  STACK_SILENT: {
    exit: EXIT.noStack,
    text: "the stack in {dir} does not answer at {url} ({reason}): start it again with npm start",
  },
  API_BUSY: {
    exit: EXIT.failed,
    text: "{request}: the API has as many requests as it answers at once, or the stack is stopping: try again",
  },
  API_ANSWER: { exit: EXIT.failed, text: "{request}: the answer ({status}) is not understood: {body}" },
  TARGET_UNKNOWN: {
    exit: EXIT.notFound,
    text: "{target} is neither a pipeline nor a table of one; there are: {known}",
  },
  NAME_UNKNOWN: { exit: EXIT.notFound, text: "no {kind} is called {name}: millrace {kind}s list shows what there is" },
  NAME_AMBIGUOUS: { exit: EXIT.usage, text: "several {kind}s are called {name}: give one of their ids: {ids}" },
  JOB_FAILED: { exit: EXIT.failed, text: "job {id} {end}" },
  INTERRUPTED: {
    exit: EXIT.failed,
    text: "job {id} goes on; millrace jobs logs {id} --follow goes on reading, millrace jobs stop {id} stops it",
  },
} as const satisfies Record<string, { readonly exit: Exit; readonly text: string }>;

export type CliErrorCode = keyof typeof CLI_ERRORS;

/** Ends the command with the exit code of its kind. */
export class CliError extends Error {
  readonly code: CliErrorCode;
  readonly exit: Exit;

  constructor(code: CliErrorCode, details: Readonly<Record<string, unknown>>, options?: ErrorOptions) {
    super(
      CLI_ERRORS[code].text.replace(/\{(\w+)\}/g, (_, name: string) => String(details[name] ?? "?")),
      options,
    );
    this.name = "CliError";
    this.code = code;
    this.exit = CLI_ERRORS[code].exit;
  }
}
