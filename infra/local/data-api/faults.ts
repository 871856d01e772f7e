import { LocalError } from "../errors.ts";
import { ApiFailure, isFailureName } from "./failure.ts";
import type { Operation } from "./request.ts";
import { sqlErrorText } from "./sql-error.ts";

/**
 * What can be made to go wrong with a call:
 * - `lostAnswer`: it runs and takes effect, then the connection drops without an answer;
 * - `error`: it does not run; `code` is an SQLState (default 40P01) or the name of one of the service's exceptions;
 * - `delay`: it waits `seconds` before it runs;
 * - `resuming`: it does not run, the cluster is waking up (not for Commit and Rollback, which cannot get that);
 * - `unavailable`: it does not run, 504 without a message;
 * - `hang`: it does not run and is never answered.
 */
const FAULT_KINDS = ["lostAnswer", "error", "delay", "resuming", "unavailable", "hang"] as const;
type FaultKind = (typeof FAULT_KINDS)[number];

export interface FaultSpec {
  /** Part of the SQL or of the operation's name, as `BeginTransaction`; every call if absent. */
  readonly match?: string;
  readonly kind: FaultKind;
  /** How many calls it befalls. Default 1. */
  readonly count?: number;
  /** Of a delay. Default 1. */
  readonly seconds?: number;
  /** Of an error. */
  readonly code?: string;
}

/** A fault that is still to befall `left` calls. */
export interface Fault extends FaultSpec {
  readonly left: number;
}

export interface Faults {
  /** LocalError BAD_REQUEST if it makes no sense. */
  add(spec: FaultSpec): Fault;
  /** Those that have calls left. */
  list(): readonly Fault[];
  clear(): void;
}

/** What the server itself needs: takes the first fault that matches a call off the list. */
export interface FaultBox extends Faults {
  take(operation: Operation, sql: string): Fault | undefined;
}

export function createFaults(): FaultBox {
  let faults: (FaultSpec & { left: number })[] = [];
  return {
    add(spec) {
      check(spec);
      const fault = { ...spec, left: spec.count ?? 1 };
      faults.push(fault);
      return { ...fault };
    },
    list: () => faults.map((fault) => ({ ...fault })),
    clear: () => {
      faults = [];
    },
    take(operation, sql) {
      const found = faults.find((fault) => befalls(fault, operation, sql));
      if (!found) return undefined;
      found.left--;
      faults = faults.filter(({ left }) => left > 0);
      return { ...found };
    },
  };
}

function befalls({ match = "", kind }: FaultSpec, operation: Operation, sql: string): boolean {
  const ends = operation === "CommitTransaction" || operation === "RollbackTransaction";
  return (sql.includes(match) || operation.includes(match)) && !(kind === "resuming" && ends);
}

function check({ kind, count = 1, seconds = 1, code = "40P01", match = "" }: FaultSpec): void {
  const bad = (field: string, problem: string) => new LocalError("BAD_REQUEST", { field, problem });
  if (!FAULT_KINDS.includes(kind)) throw bad("kind", `must be one of ${FAULT_KINDS.join(", ")}`);
  if (!Number.isInteger(count) || count < 1) throw bad("count", "must be a whole number above 0");
  if (typeof seconds !== "number" || !(seconds >= 0)) throw bad("seconds", "must be a number of at least 0");
  if (typeof match !== "string") throw bad("match", "must be a string");
  if (typeof code !== "string" || !(isFailureName(code) || /^[0-9A-Z]{5}$/.test(code))) {
    throw bad("code", "must be an SQLState or the name of an exception of the service");
  }
}

const MESSAGES: Readonly<Record<string, string>> = {
  "40001": "could not serialize access due to concurrent update",
  "40P01": "deadlock detected",
  "55P03": "canceling statement due to lock timeout",
  "57014": "canceling statement due to statement timeout",
};

/** The answer that an `error`, `resuming` or `unavailable` stands for. */
export function faultFailure({ kind, code = "40P01" }: FaultSpec, resourceArn: string): ApiFailure {
  if (kind === "unavailable") return new ApiFailure("DatabaseUnavailableException");
  if (kind === "resuming") {
    const what = `The Aurora DB instance ${resourceArn} is resuming after being auto-paused.`;
    return new ApiFailure("DatabaseResumingException", `${what} Please wait a few seconds and try again.`);
  }
  if (isFailureName(code)) return new ApiFailure(code, "injected fault");
  return new ApiFailure("DatabaseErrorException", sqlErrorText({ code, message: MESSAGES[code] ?? "injected fault" }));
}
