import type { CallOfRole } from "../../infra/local/iam/describe-access.ts";
import { statementsOf } from "../../infra/local/iam/policy-json.ts";
import type { Json, JsonObject, RawResource } from "../../infra/local/template.ts";
import type { Exception } from "./exceptions.ts";

/** A grant as a template has it: `resource` may be a function's text. */
export type GrantOfRole = CallOfRole;

type Resources = Readonly<Record<string, RawResource>>;

/** One policy of a template: the document is the template's own, to be changed. */
export interface PolicyOfRole {
  readonly role: string;
  /** Logical id of the resource that holds it. */
  readonly policy: string;
  readonly document: JsonObject;
}

/** Every policy that a template itself gives to a role. */
export function policiesOf(resources: Resources): readonly PolicyOfRole[] {
  return Object.entries(resources).flatMap(([id, { Type, Properties = {} }]) => {
    if (Type === "AWS::IAM::Role") {
      const inline = (Properties["Policies"] ?? []) as readonly JsonObject[];
      return inline.map((each) => ({ role: id, policy: id, document: each["PolicyDocument"] as JsonObject }));
    }
    if (Type !== "AWS::IAM::Policy") return [];
    const roles = Properties["Roles"] as readonly { readonly Ref: string }[];
    return roles.map(({ Ref }) => ({ role: Ref, policy: id, document: Properties["PolicyDocument"] as JsonObject }));
  });
}

export const many = (value: Json | undefined): readonly Json[] =>
  value === undefined ? [] : Array.isArray(value) ? value : [value];

/** Everything that a template allows its roles: action by action, resource by resource. */
export function grantsOf(resources: Resources): readonly GrantOfRole[] {
  return policiesOf(resources).flatMap(({ role, document }) =>
    statementsOf(document)
      .filter(({ Effect }) => Effect === "Allow")
      .flatMap(({ Action, Resource }) =>
        many(Action).flatMap((action) =>
          many(Resource).map((resource) => ({ role, action: String(action), resource: JSON.stringify(resource) })),
        ),
      ),
  );
}

/** Those of the first that the second has not. */
export function onlyIn(grants: readonly GrantOfRole[], others: readonly GrantOfRole[]): readonly GrantOfRole[] {
  const known = new Set(others.map((each) => JSON.stringify(each)));
  return grants.filter((each) => !known.has(JSON.stringify(each)));
}

/** A logical id without CDK's hash. */
const plain = (id: string) => id.replace(/[0-9A-F]{8}$/, "");

/** Takes from unused grants what exceptions explain; `idle` are exceptions, or actions of them, that explain nothing. */
export function settle(
  unused: readonly GrantOfRole[],
  exceptions: readonly Exception[],
): { readonly left: readonly GrantOfRole[]; readonly idle: readonly string[] } {
  const explains = ({ role, actions }: Exception, grant: GrantOfRole, action?: string) => {
    const pattern = new RegExp(`^${role.replaceAll("*", ".*")}$`);
    return pattern.test(plain(grant.role)) && (action === undefined ? actions : [action]).includes(grant.action);
  };
  return {
    left: unused.filter((grant) => !exceptions.some((each) => explains(each, grant))),
    idle: exceptions.flatMap((each) =>
      each.actions
        .filter((action) => !unused.some((grant) => explains(each, grant, action)))
        .map((action) => `${each.role} ${action}`),
    ),
  };
}
