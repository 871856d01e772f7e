/*
 * The policies of one stack, and what they say of a call: an explicit denial anywhere wins, then one permission is
 * enough, in the role's own policies or in the resource's; without any the call is refused.
 * https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
 */

import { ACCOUNT_ID, REGION } from "../resource-types.ts";
import type { Context } from "./conditions.ts";
import type { PolicyDocument } from "./policy-json.ts";
import { type Caller, checkPrincipal, roleArn } from "./principals.ts";
import { applies, parseStatements, type Request, type Statement } from "./statement.ts";

/** What is to be allowed. */
export interface Need {
  readonly action: string;
  readonly resource: string;
  /** Condition keys besides those that every call has. */
  readonly context?: Context;
}

/** Why a call is refused. */
export type Reason = "noPermission" | "deniedByRole" | "deniedByResource";

/** One action on one resource that a statement of a role allows. */
export interface Grant {
  readonly role: string;
  readonly policy: string;
  readonly action: string;
  readonly resource: string;
}

/** What is decided of a call. */
export interface Judgement {
  /** Undefined: it is allowed. */
  readonly refused: Reason | undefined;
  /** The grants of the caller's role that allow it. */
  readonly by: readonly Grant[];
}

/** All policies of a stack. */
export class Policies {
  readonly #ofRoles = new Map<string, Statement[]>();
  readonly #ofResources = new Map<string, Statement[]>();

  /** Adds a policy of a role. Throws POLICY_UNSUPPORTED for what is not evaluated here. */
  addToRole(role: string, id: string, document: PolicyDocument): void {
    this.#ofRoles.set(role, [...(this.#ofRoles.get(role) ?? []), ...parseStatements(id, document)]);
  }

  /** Adds a policy of a resource: a queue's, a function's, or who may take a role. Throws POLICY_UNSUPPORTED. */
  addToResource(resource: string, id: string, document: PolicyDocument): void {
    const statements = parseStatements(id, document, resource);
    for (const { principal } of statements) checkPrincipal(id, principal!);
    this.#ofResources.set(resource, [...(this.#ofResources.get(resource) ?? []), ...statements]);
  }

  /** Judges one call. */
  judge(caller: Caller, need: Need): Judgement {
    const request: Request = { ...need, caller, context: { ...commonContext(caller), ...need.context } };
    const isRole = caller !== "anonymous" && "role" in caller;
    const own = (isRole ? (this.#ofRoles.get(caller.role) ?? []) : []).filter((each) => applies(each, request));
    const its = (this.#ofResources.get(need.resource) ?? []).filter((each) => applies(each, request));
    if (own.some(({ effect }) => effect === "Deny")) return { refused: "deniedByRole", by: [] };
    if (its.some(({ effect }) => effect === "Deny")) return { refused: "deniedByResource", by: [] };
    const by = isRole ? own.flatMap((statement) => matching(caller.role, statement, need)) : [];
    return { refused: own.length + its.length > 0 ? undefined : "noPermission", by };
  }

  /** Everything that roles are allowed: action by action, resource by resource. */
  grants(): readonly Grant[] {
    return [...this.#ofRoles].flatMap(([role, statements]) =>
      statements.filter(({ effect }) => effect === "Allow").flatMap((statement) => grantsOf(role, statement)),
    );
  }
}

function grantsOf(role: string, { policy, actions, resources }: Statement): readonly Grant[] {
  return actions.flatMap((action) =>
    resources.map((resource) => ({ role, policy, action: action.text, resource: resource.text })),
  );
}

function matching(role: string, statement: Statement, { action, resource }: Need): readonly Grant[] {
  return grantsOf(role, {
    ...statement,
    actions: statement.actions.filter((each) => each.matches(action)),
    resources: statement.resources.filter((each) => each.matches(resource)),
  });
}

/** What every call has. Loopback stands for TLS: everything here is plain HTTP, and would be encrypted on AWS. */
function commonContext(caller: Caller): Context {
  const common = { "aws:securetransport": "true", "aws:requestedregion": REGION, "aws:resourceaccount": ACCOUNT_ID };
  if (caller === "anonymous") return { ...common, "aws:principaltype": "Anonymous" };
  if ("service" in caller) return { ...common, "aws:principalisawsservice": "true" };
  return {
    ...common,
    "aws:principalisawsservice": "false",
    "aws:principaltype": "AssumedRole",
    "aws:principalaccount": ACCOUNT_ID,
    "aws:principalarn": roleArn(caller.role),
    "lambda:sourcefunctionarn": caller.functionArn,
  };
}
