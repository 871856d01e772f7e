/*
 * Condition blocks of policy statements. All operators and all keys of a block must hold, one value of each is enough.
 * https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
 */

import type { Json, JsonObject } from "../template.ts";
import { arnGlob, glob } from "./glob.ts";
import { list, unsupported } from "./policy-json.ts";

/** What is known of a call besides action and resource: condition keys, in lower case, each with one value or none. */
export type Context = Readonly<Record<string, string | undefined>>;

/** Whether a condition holds for a call. */
export type Condition = (context: Context) => boolean;

/** Condition keys that every call here has, or is known not to have. A condition on another key is an error. */
const CONDITION_KEYS: ReadonlySet<string> = new Set([
  "aws:principalaccount",
  "aws:principalarn",
  "aws:principalisawsservice",
  "aws:principaltype",
  "aws:requestedregion",
  "aws:resourceaccount",
  "aws:securetransport",
  "aws:sourceaccount",
  "aws:sourcearn",
  "lambda:functionurlauthtype",
  "lambda:invokedviafunctionurl",
  "lambda:sourcefunctionarn",
]);

interface Operator {
  /** A test for one value of the policy. */
  test(value: string): (actual: string) => boolean;
  /** It holds when no value matches, and when the key is absent. */
  readonly negated?: true;
}

const equals: Operator["test"] = (value) => (actual) => actual === value;
const equalsCaseless: Operator["test"] = (value) => (actual) => actual.toLowerCase() === value.toLowerCase();
const like: Operator["test"] = (value) => {
  const pattern = glob(value);
  return (actual) => pattern.test(actual);
};

const OPERATORS: Readonly<Record<string, Operator>> = {
  StringEquals: { test: equals },
  StringNotEquals: { test: equals, negated: true },
  StringEqualsIgnoreCase: { test: equalsCaseless },
  StringNotEqualsIgnoreCase: { test: equalsCaseless, negated: true },
  StringLike: { test: like },
  StringNotLike: { test: like, negated: true },
  // the two are the same, says IAM
  ArnEquals: { test: arnGlob },
  ArnLike: { test: arnGlob },
  ArnNotEquals: { test: arnGlob, negated: true },
  ArnNotLike: { test: arnGlob, negated: true },
  Bool: { test: equalsCaseless },
};

/** Reads a condition block of policy `id`. Throws POLICY_UNSUPPORTED for an operator or key that is not evaluated. */
export function parseCondition(id: string, block: Json): Condition {
  const tests = Object.entries(block as JsonObject).flatMap(([operator, keys]) =>
    Object.entries(keys as JsonObject).map(([key, values]) => parseOne(id, operator, key, list(values))),
  );
  return (context) => tests.every((holds) => holds(context));
}

function parseOne(id: string, name: string, key: string, values: readonly string[]): Condition {
  const known = key.toLowerCase();
  if (!CONDITION_KEYS.has(known)) throw unsupported(id, `the condition key ${key}`);
  for (const value of values) {
    if (/\$\{[^*?$]/.test(value)) throw unsupported(id, `the policy variable in ${value}`);
  }
  if (name === "Null") return (context) => values.includes(String(context[known] === undefined));
  const [, set, base = "", ifExists] = /^(?:(ForAnyValue|ForAllValues):)?(\w+?)(IfExists)?$/.exec(name) ?? [];
  const operator = Object.hasOwn(OPERATORS, base) ? OPERATORS[base] : undefined;
  if (!operator) throw unsupported(id, `the condition operator ${name}`);
  const tests = values.map((value) => operator.test(value));
  const negated = operator.negated === true;
  // All keys here have at most one value: both sets come down to what an absent key means.
  const absent = set === undefined ? negated || ifExists !== undefined : set === "ForAllValues";
  return (context) => {
    const actual = context[known];
    if (actual === undefined) return absent;
    return tests.some((test) => test(actual)) !== negated;
  };
}
