import * as v from "valibot";
import { ApiProblem, type FieldProblem } from "./problems.ts";

/** The largest volume, as at EC2 (gp3): https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html */
const MOST_GB = 65_536;
/** Rows of one page of a list: at most, and when nobody says. */
const MOST_ROWS = 100;
const DEFAULT_ROWS = 50;

const text = (most: number) =>
  v.pipe(
    v.string("must be a text"),
    v.check((value) => value.trim() !== "", "must not be empty"),
    v.maxLength(most, `must have at most ${most} characters`),
    // PostgreSQL stores no NUL, and names end up in logs and terminals.
    v.regex(/^\P{Cc}*$/u, "must not contain control characters"),
  );

const whole = (most: number, words = `must be a whole number from 1 to ${most}`) =>
  v.pipe(v.number(words), v.integer(words), v.minValue(1, words), v.maxValue(most, words));

export const NewVolume = v.strictObject({ name: text(200), sizeGb: whole(MOST_GB) }, "must be a JSON object");

export const VolumeStatus = v.picklist(
  ["submitted", "active", "failed", "deleting"],
  "must be submitted, active, failed or deleting",
);

export const VolumeQuery = v.strictObject({
  limit: v.optional(v.pipe(v.string(), v.transform(Number), whole(MOST_ROWS)), String(DEFAULT_ROWS)),
  cursor: v.optional(v.pipe(v.string(), v.nonEmpty("must not be empty"))),
  status: v.optional(VolumeStatus),
});

export const Pause = v.strictObject({ by: text(200) }, "must be a JSON object");

const named = v.pipe(v.string("must be a text"), v.nonEmpty("must not be empty"));
export const Hint = v.union(
  [v.strictObject({ pipeline: named }), v.strictObject({ table: named })],
  'must be {"pipeline": "…"} or {"table": "…"}',
);

/** The body, checked. Errors: BODY_MALFORMED, or BODY_INVALID with every field that is wrong. */
export async function readBody<const S extends v.GenericSchema>(
  request: Request,
  schema: S,
): Promise<v.InferOutput<S>> {
  let body: unknown;
  try {
    body = await request.json();
  } catch (error) {
    throw new ApiProblem("BODY_MALFORMED", { problem: error instanceof Error ? error.message : error });
  }
  return check("BODY_INVALID", body, schema);
}

/** The query, checked. Errors: QUERY_INVALID with every field that is wrong. */
export function readQuery<const S extends v.GenericSchema>(request: Request, schema: S): v.InferOutput<S> {
  return check("QUERY_INVALID", Object.fromEntries(new URL(request.url).searchParams), schema);
}

/** An id in a path. Errors: ID_INVALID. */
export function readId(id: string): string {
  if (!v.is(v.pipe(v.string(), v.uuid()), id)) throw new ApiProblem("ID_INVALID", { id });
  return id.toLowerCase();
}

function check<const S extends v.GenericSchema>(code: "BODY_INVALID" | "QUERY_INVALID", value: unknown, schema: S) {
  // To Valibot a list is an object.
  const result = v.safeParse(schema, Array.isArray(value) ? null : value, { abortPipeEarly: true });
  if (result.success) return result.output;
  const whole = code === "BODY_INVALID" ? "body" : "query";
  const fields = result.issues.map((issue) => fieldProblem(issue, whole));
  const problem = fields.map(({ field, problem }) => (field === whole ? problem : `${field} ${problem}`)).join("; ");
  throw new ApiProblem(code, { problem }, fields);
}

/** `whole` stands for the field where the issue is with all of it. */
function fieldProblem(issue: v.BaseIssue<unknown>, whole: string): FieldProblem {
  const field = v.getDotPath(issue) ?? whole;
  if (issue.type !== "strict_object" || field === whole) return { field, problem: issue.message };
  // Of a strict object: a field that is missing, or one that it does not know.
  return { field, problem: issue.expected === "never" ? "is not known here" : "is missing" };
}
