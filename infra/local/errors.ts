/**
 * Everything that can go wrong on the local stack and that somebody can do something about.
 * `{name}` is filled in from the details; each text ends with what to do.
 */
export const LOCAL_ERRORS = {
  ALREADY_RUNNING:
    "A stack with process {pid} runs in {dir} already. Stop it, or give another folder with --state-dir.",
  PORT_IN_USE: "Port {port} for {what} is taken. Stop what listens there, or give {option} (0 means any free port).",
  DATA_DIRECTORY_VERSION:
    "{dataDir} holds the data of PostgreSQL {found}, and this stack runs PostgreSQL {expected}. Move the directory away (PostgreSQL {found} can still read it) and start again.",
  DATA_DIRECTORY_IN_USE:
    "{dataDir} is in use by process {pid}, which still runs. Stop it, or give another folder with --state-dir.",
  DATA_DIRECTORY_UNREACHABLE:
    "User {user}, who runs PostgreSQL, cannot use {dataDir}: {reason}. Give a folder that this user may enter.",
  POSTGRES_USER:
    "PostgreSQL does not run as root, and there is no user postgres to run it as, nor could one be made: {reason}. Make it (useradd --system postgres), or start as another user.",
  POSTGRES_BINARIES:
    "There is no PostgreSQL for {platform} that runs here: {reason}. Run npm ci again, with optional dependencies.",
  POSTGRES_START: "PostgreSQL did not start in {dataDir}: {reason}. What it says is the cause to remove.",
  SYNTH_FAILED:
    "Synthesizing the app ended with {outcome}:\n{output}\nMend infra/aws, or run node infra/aws/app.ts by itself.",
  ASSEMBLY_INCOMPLETE: "The cloud assembly in {dir} lacks {what}. Synthesize again.",
  RESOURCE_TYPE_UNKNOWN:
    "{id} is an {type}, which the local stack neither runs nor knows to be without meaning here. Add it to infra/local/resource-types.ts.",
  TEMPLATE_UNRESOLVED: "{path}: {what}. Teach infra/local/template.ts, or write it differently in infra/aws.",
  PROPERTY_UNSUPPORTED: "{id} has {property} = {value}, which the local stack cannot run: {why}.",
  NOT_IN_TEMPLATE: "The template has no {what}; the local stack needs one.",
  ROLE_LACKS_PERMISSION:
    "{role} may not {action} on {resource}; AWS would refuse {what}. Grant it in infra/aws: {statement}",
  POLICY_UNSUPPORTED:
    "{id} has {what}, which the local stack does not evaluate. Teach infra/local/iam, or write it differently in infra/aws.",
  ACCESS_DENIED: "{who} was refused {action} on {resource}: {why}. {advice} (infra/aws).",
  TRIGGER_FAILED: "Trigger {id}: its function {functionName} failed: {error}. Its log is {logFile}.",
  STATE_FOLDER: "The state folder {dir} cannot be made: {problem}. Give another with --state-dir.",
  NOT_FOUND: "There is no {what} named {name}; there are: {known}.",
  BAD_REQUEST: "{field}: {problem}.",
  VOLUME_NOT_ACTIVE: "Volume {id} is still {status} after {seconds} s. The logs are in {logs}.",
  FLEET_STUCK: "Fleet {id} is still {what} after {seconds} s. The logs are in {logs}.",
  API_FAILED: "{method} {path} answered {status}: {body}. The logs are in {logs}.",
  STACK_DIED: "The local stack ended with {outcome} before it was ready:\n{output}",
} as const satisfies Record<string, string>;

export type LocalErrorCode = keyof typeof LOCAL_ERRORS;

/** An error of the local stack: `code` is for programs, the message says what to do. */
export class LocalError extends Error {
  readonly code: LocalErrorCode;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: LocalErrorCode, details: Readonly<Record<string, unknown>> = {}, options?: ErrorOptions) {
    super(
      LOCAL_ERRORS[code].replace(/\{(\w+)\}/g, (_, name: string) => String(details[name] ?? "?")),
      options,
    );
    this.name = "LocalError";
    this.code = code;
    this.details = details;
  }
}
