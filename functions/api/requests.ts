import * as v from "valibot";
import type { EventJson, InstanceStatus, JobStatus, VolumeStatus } from "./json.ts";
import { ApiProblem, type FieldProblem } from "./problems.ts";

export const LIMITS = {
  /** The largest volume, as at EC2 (gp3): https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html */
  mostGb: 65_536,
  /** Characters of a name. */
  mostText: 200,
  /** Bytes of a folder's name: https://www.man7.org/linux/man-pages/man3/NAME_MAX.3const.html */
  mostNameBytes: 255,
  /** Rows of one page of a list: at most, and when nobody says. */
  mostRows: 100,
  defaultRows: 50,
  /** Instances of a fleet, and jobs that one of them runs at once. */
  mostNodes: 100,
  mostSlots: 16,
  /** A command: its parts, and characters of all of them. */
  mostArguments: 256,
  mostCommand: 32_768,
  /** Volumes of a job. */
  mostVolumes: 10,
} as const;

/** What `status` of a volume can be. */
export const VOLUME_STATUSES = ["submitted", "active", "failed", "deleting"] as const satisfies readonly VolumeStatus[];

export const INSTANCE_STATUSES = [
  "pending",
  "provisioning",
  "idle",
  "busy",
  "terminating",
  "terminated",
] as const satisfies readonly InstanceStatus[];

export const JOB_STATUSES = [
  "submitted",
  "provisioning",
  "running",
  "terminating",
  "done",
  "failed",
  "terminated",
] as const satisfies readonly JobStatus[];

export const EVENT_KINDS = ["volume", "fleet", "instance", "job"] as const satisfies readonly EventJson["kind"][];

const JSON_OBJECT = "must be a JSON object";

/** Half a character is none to PostgreSQL. */
const wellFormed = v.check((value: string) => value.isWellFormed(), "must be Unicode text");

const text = (most: number) =>
  v.pipe(
    v.string("must be a text"),
    v.check((value) => value.trim() !== "", "must not be empty"),
    v.maxLength(most, `must have at most ${most} characters`),
    // PostgreSQL stores no NUL, and names end up in logs and terminals.
    v.regex(/^\P{Cc}*$/u, "must not contain control characters"),
    wellFormed,
  );

const whole = (least: number, most: number, words = `must be a whole number from ${least} to ${most}`) =>
  v.pipe(v.number(words), v.integer(words), v.minValue(least, words), v.maxValue(most, words));

/** A whole number in a query, whose values are texts. */
const wholeText = (least: number, most: number) =>
  v.pipe(
    v.string(),
    v.regex(/^\d+$/, `must be a whole number from ${least} to ${most}`),
    v.transform(Number),
    whole(least, most),
  );

const uuid = v.pipe(v.string("must be a text"), v.uuid("must be a uuid"), v.toLowerCase());
const uuids = (least: number, most: number) =>
  v.pipe(
    v.array(uuid, "must be a list of ids"),
    v.minLength(least, `must have at least ${least}`),
    v.maxLength(most, `must have at most ${most}`),
    v.check((ids) => new Set(ids).size === ids.length, "must not name one twice"),
  );

/** Jobs see a volume as a folder of its name. */
const folderName = v.pipe(
  text(LIMITS.mostText),
  v.check((name) => !/^\.{1,2}$|\//.test(name), "must be a folder's name: not . or .., and without /"),
  v.check(
    (name) => Buffer.byteLength(name) <= LIMITS.mostNameBytes,
    `must have at most ${LIMITS.mostNameBytes} bytes, as a folder's name`,
  ),
);

export const NewVolume = v.strictObject({ name: folderName, sizeGb: whole(1, LIMITS.mostGb) }, JSON_OBJECT);

const page = {
  limit: v.optional(wholeText(1, LIMITS.mostRows), String(LIMITS.defaultRows)),
  cursor: v.optional(v.pipe(v.string(), v.nonEmpty("must not be empty"))),
};
const oneOf = <const T extends readonly string[]>(values: T) =>
  v.optional(v.picklist(values, `must be one of ${values.join(", ")}`));

export const VolumeQuery = v.strictObject({
  ...page,
  status: oneOf(VOLUME_STATUSES),
  name: v.optional(text(LIMITS.mostText)),
});

const nodes = whole(0, LIMITS.mostNodes);

export const NewFleet = v.strictObject(
  {
    name: v.pipe(
      text(LIMITS.mostText),
      // Wherever a fleet can be named, it can be named by its id, too.
      v.check((name) => !v.is(uuid, name), "must not look like an id"),
    ),
    nodes,
    slots: v.optional(whole(1, LIMITS.mostSlots), 1),
  },
  JSON_OBJECT,
);

export const Resize = v.strictObject({ nodes }, JSON_OBJECT);

export const FleetQuery = v.strictObject({ ...page, name: v.optional(text(LIMITS.mostText)) });

export const PageQuery = v.strictObject(page);

export const InstanceIds = v.strictObject({ ids: uuids(1, LIMITS.mostNodes) }, JSON_OBJECT);

const command = v.pipe(
  v.array(
    v.pipe(
      v.string("must be a text"),
      v.check((part) => !part.includes("\0"), "must not contain a zero byte"),
      wellFormed,
    ),
    "must be a list of texts",
  ),
  v.check((parts) => (parts[0] ?? "") !== "", "must name a program"),
  v.maxLength(LIMITS.mostArguments, `must have at most ${LIMITS.mostArguments} parts`),
  v.check(
    (parts) => parts.reduce((sum, part) => sum + part.length, 0) <= LIMITS.mostCommand,
    `must have at most ${LIMITS.mostCommand} characters`,
  ),
);

export const NewJob = v.strictObject(
  { fleetId: uuid, command, volumeIds: v.optional(uuids(0, LIMITS.mostVolumes), []) },
  JSON_OBJECT,
);

export const JobQuery = v.strictObject({ ...page, fleetId: v.optional(uuid), status: oneOf(JOB_STATUSES) });

export const OutputQuery = v.strictObject({ from: v.optional(wholeText(0, Number.MAX_SAFE_INTEGER), "0") });

export const EventQuery = v.strictObject({
  ...page,
  direction: v.optional(v.picklist(["asc", "desc"], "must be asc or desc"), "desc"),
  subjectId: v.optional(uuid),
});

export const Pause = v.strictObject({ by: text(LIMITS.mostText) }, JSON_OBJECT);

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
