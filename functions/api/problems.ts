import { MillraceError } from "../../lib/index.ts";
import type { ProblemJson } from "./json.ts";

/** What the API itself refuses; errors of the engine keep their own code and status. */
export const PROBLEMS = {
  REQUEST_MALFORMED: { status: 400, text: "this is no request that HTTP allows: its method or a header is wrong" },
  BODY_MALFORMED: { status: 400, text: "the body is not JSON: {problem}" },
  BODY_INVALID: { status: 400, text: "the body is wrong: {problem}" },
  QUERY_INVALID: { status: 400, text: "the query is wrong: {problem}" },
  ID_INVALID: { status: 400, text: "id is wrong: {id} is no uuid" },
  VOLUME_UNKNOWN: { status: 404, text: "there is no volume {id}; it may have been deleted" },
  FLEET_UNKNOWN: { status: 404, text: "there is no fleet {id}; it may have been deleted" },
  FLEET_DELETING: { status: 409, text: "fleet {id} is being deleted: make another one" },
  INSTANCE_UNKNOWN: { status: 404, text: "there is no instance {id}; it may have been terminated" },
  INSTANCES_FOREIGN: { status: 422, text: "fleet {fleet} has no instances {ids}; none was terminated" },
  INSTANCES_BUSY: { status: 409, text: "instances {ids} run jobs: stop these first; none was terminated" },
  JOB_UNKNOWN: { status: 404, text: "there is no job {id}" },
  JOB_FLEET_UNKNOWN: { status: 422, text: "fleetId is wrong: there is no fleet {id}" },
  JOB_FLEET_DELETING: { status: 422, text: "fleetId is wrong: fleet {id} is being deleted and takes no more jobs" },
  JOB_VOLUMES_UNKNOWN: { status: 422, text: "volumeIds is wrong: there are no volumes {ids}" },
  JOB_VOLUMES_DELETING: { status: 422, text: "volumeIds is wrong: volumes {ids} are being deleted" },
  JOB_VOLUMES_SAME_NAME: {
    status: 422,
    text: "volumeIds is wrong: several volumes are called {names}, and each is a folder of its name",
  },
  JOB_VOLUMES_NAME: { status: 422, text: "volumeIds is wrong: no folder can be called {names}" },
  OUTPUT_UNREACHABLE: { status: 503, text: "the output of job {id} cannot be read now ({reason}); try again" },
  ROUTE_UNKNOWN: { status: 404, text: "there is no {method} {path}; GET / lists what there is" },
  INTERNAL: {
    status: 500,
    text: "something went wrong that nobody foresaw; the function's log has it under {reference}",
  },
} as const satisfies Record<string, { readonly status: number; readonly text: string }>;

export type ProblemCode = keyof typeof PROBLEMS;

/** One field that is wrong, and how. */
export interface FieldProblem {
  /** Where it is in body or query: `sizeGb`. */
  readonly field: string;
  readonly problem: string;
}

/** Ends a request with a problem. */
export class ApiProblem extends Error {
  readonly code: ProblemCode;
  readonly fields: readonly FieldProblem[];

  constructor(
    code: ProblemCode,
    details: Readonly<Record<string, unknown>> = {},
    fields: readonly FieldProblem[] = [],
  ) {
    super(PROBLEMS[code].text.replace(/\{(\w+)\}/g, (_, name: string) => String(details[name] ?? "?")));
    this.name = "ApiProblem";
    this.code = code;
    this.fields = fields;
  }
}

/** Seconds after which a refused request is worth repeating, by status. */
const RETRY_AFTER: Readonly<Record<number, number>> = { 423: 1, 503: 5 };

/**
 * An error as problem details (RFC 9457). An error that nobody foresaw says nothing of its inside: `log` gets it,
 * under the reference that the answer names.
 */
export function problemResponse(error: unknown, log: (reference: string, error: unknown) => void): Response {
  const known = describe(error);
  if (known !== undefined) return respond(known.status, known.code, known.detail, known.fields);
  const reference = crypto.randomUUID();
  log(reference, error);
  const problem = new ApiProblem("INTERNAL", { reference });
  return respond(PROBLEMS.INTERNAL.status, problem.code, problem.message, []);
}

function describe(error: unknown) {
  if (error instanceof ApiProblem) {
    const { code, message: detail, fields } = error;
    return { status: PROBLEMS[code].status, code, detail, fields };
  }
  // A 500 of the engine is for its operators, not for the caller.
  if (error instanceof MillraceError && error.status !== 500) {
    return { status: error.status, code: error.code, detail: error.message, fields: [] };
  }
  return undefined;
}

function respond(status: number, code: string, detail: string, fields: readonly FieldProblem[]): Response {
  const body: ProblemJson = {
    type: `urn:millrace:problem:${code.toLowerCase().replaceAll("_", "-")}`,
    title: TITLES[status] ?? "Error",
    status,
    detail,
    code,
    ...(fields.length === 0 ? {} : { fields }),
  };
  const headers = new Headers({ "content-type": "application/problem+json" });
  const seconds = RETRY_AFTER[status];
  if (seconds !== undefined) headers.set("retry-after", String(seconds));
  return new Response(JSON.stringify(body), { status, headers });
}

const TITLES: Readonly<Record<number, string>> = {
  400: "Bad Request",
  404: "Not Found",
  409: "Conflict",
  422: "Unprocessable Content",
  423: "Locked",
  500: "Internal Server Error",
  503: "Service Unavailable",
};
