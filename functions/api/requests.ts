import * as v from "valibot";
import type { VolumeStatus } from "./json.ts";
import { ApiProblem, type FieldProblem } from "./problems.ts";

export const LIMITS = {
  /** The largest volume, as at EC2 (gp3): https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html */
  mostGb: 65_536,
  /** Characters of a name. */
  mostText: 200,
  /** Rows of one page of a list: at most, and when nobody says. */
  mostRows: 100,
  defaultRows: 50,
} as const;

/** What `status` of a volume can be. */
export const VOLUME_STATUSES = ["submitted", "active", "failed", "deleting"] as const satisfies readonly VolumeStatus[];

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

export const NewVolume = v.strictObject(
  { name: text(LIMITS.mostText), sizeGb: whole(LIMITS.mostGb) },
  "must be a JSON object",
);

const status = v.picklist(VOLUME_STATUSES, `must be one of ${VOLUME_STATUSES.join(", ")}`);

export const VolumeQuery = v.strictObject({
  limit: v.optional(v.pipe(v.string(), v.transform(Number), whole(LIMITS.mostRows)), String(LIMITS.defaultRows)),
  cursor: v.optional(v.pipe(v.string(), v.nonEmpty("must not be empty"))),
  status: v.optional(status),
});

export const Pause = v.strictObject({ by: text(LIMITS.mostText) }, "must be a JSON object");

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
