/* One statement of a policy: whom, what and where it is about. */

import type { Json, JsonObject } from "../template.ts";
import { type Condition, type Context, parseCondition } from "./conditions.ts";
import { glob } from "./glob.ts";
import { list, type PolicyDocument, statementsOf, unsupported } from "./policy-json.ts";
import { type Caller, matchesPrincipal } from "./principals.ts";

/** A call to be judged. */
export interface Request {
  readonly caller: Caller;
  /** Such as `sqs:SendMessage`. */
  readonly action: string;
  /** An ARN. */
  readonly resource: string;
  readonly context: Context;
}

/** An action or resource as a statement names it. */
interface Named {
  readonly text: string;
  matches(actual: string): boolean;
}

/** A statement, read. */
export interface Statement {
  /** Logical id of the policy that it stands in. */
  readonly policy: string;
  readonly effect: "Allow" | "Deny";
  /** One entry each, or one for all that a NotAction or NotResource leaves. */
  readonly actions: readonly Named[];
  readonly resources: readonly Named[];
  /** Whom a resource's policy means; absent in a role's own, which are about that role. */
  readonly principal?: Json;
  readonly condition?: Condition;
}

const ELEMENTS = new Set([
  ...["Sid", "Effect", "Principal", "Action", "NotAction", "Resource", "NotResource", "Condition"],
]);

/**
 * Reads the statements of policy `id`. `own` is the resource that the policy belongs to, if it does: the policy then has
 * principals, and a statement without a resource means that one. Throws POLICY_UNSUPPORTED.
 */
export function parseStatements(id: string, document: PolicyDocument, own?: string): readonly Statement[] {
  return statementsOf(document).map((each) => parseStatement(id, each, own));
}

function parseStatement(id: string, given: JsonObject, own: string | undefined): Statement {
  for (const element of Object.keys(given)) {
    if (!ELEMENTS.has(element)) throw unsupported(id, `the element ${element}`);
  }
  const { Effect, Principal, Condition: condition } = given;
  if (Effect !== "Allow" && Effect !== "Deny") throw unsupported(id, `the effect ${JSON.stringify(Effect ?? null)}`);
  if ((Principal === undefined) !== (own === undefined)) {
    throw unsupported(id, own === undefined ? "a principal in a role's policy" : "a statement without a principal");
  }
  const resources = parseNamed(id, given, "Resource", { caseless: false });
  return {
    policy: id,
    effect: Effect,
    actions: parseNamed(id, given, "Action", { caseless: true }),
    resources: resources.length > 0 || own === undefined ? resources : [named(own, { caseless: false })],
    ...(Principal === undefined ? {} : { principal: Principal }),
    ...(condition === undefined ? {} : { condition: parseCondition(id, condition) }),
  };
}

function named(text: string, options: { caseless: boolean }): Named {
  const pattern = glob(text, options);
  return { text, matches: (actual) => pattern.test(actual) };
}

function parseNamed(
  id: string,
  given: JsonObject,
  element: "Action" | "Resource",
  options: { caseless: boolean },
): readonly Named[] {
  const not = `Not${element}`;
  if (given[element] !== undefined && given[not] !== undefined) throw unsupported(id, `${element} beside ${not}`);
  const texts = list(given[element] ?? given[not]);
  for (const text of texts) {
    if (/\$\{[^*?$]/.test(text)) throw unsupported(id, `the policy variable in ${text}`);
  }
  const all = texts.map((text) => named(text, options));
  if (given[not] === undefined) return all;
  return [{ text: `not ${texts.join(", ")}`, matches: (actual) => !all.some((each) => each.matches(actual)) }];
}

/** Whether a statement is about a call. */
export function applies(statement: Statement, { caller, action, resource, context }: Request): boolean {
  const { principal, actions, resources, condition, effect } = statement;
  if (principal !== undefined && !matchesPrincipal(statement.policy, principal, caller, effect)) return false;
  if (!actions.some((each) => each.matches(action)) || !resources.some((each) => each.matches(resource))) return false;
  return condition === undefined || condition(context);
}
