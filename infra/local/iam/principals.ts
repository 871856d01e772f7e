/* Who calls, and whom the policies of resources mean. */

import { ACCOUNT_ID } from "../resource-types.ts";
import type { Json, JsonObject } from "../template.ts";
import { list, unsupported } from "./policy-json.ts";

/** A function, schedule or deployment that works with a role. */
export interface RoleCaller {
  readonly role: string;
  /** Name of the session: the function's. */
  readonly session: string;
  /** ARN of the function, when it is one. */
  readonly functionArn?: string;
}

/** Whoever makes a call: a role, a service of AWS for itself, or somebody from outside. */
export type Caller = RoleCaller | { readonly service: string } | "anonymous";

export const roleArn = (role: string) => `arn:aws:iam::${ACCOUNT_ID}:role/${role}`;
export const sessionArn = ({ role, session }: RoleCaller) =>
  `arn:aws:sts::${ACCOUNT_ID}:assumed-role/${role}/${session}`;
const ACCOUNT_NAMES: readonly string[] = [ACCOUNT_ID, `arn:aws:iam::${ACCOUNT_ID}:root`];

/** Refuses principals that are not judged here. */
export function checkPrincipal(id: string, principal: Json): void {
  if (typeof principal === "string") {
    if (principal !== "*") throw unsupported(id, `the principal ${principal}`);
    return;
  }
  for (const kind of Object.keys(principal as JsonObject)) {
    if (kind !== "AWS" && kind !== "Service") throw unsupported(id, `a principal of the kind ${kind}`);
  }
}

/**
 * Whether a principal element means a caller. The account itself stands for all of its roles where something is denied;
 * where something is allowed it only leaves the decision to their own policies, which are judged anyway.
 */
export function matchesPrincipal(id: string, principal: Json, caller: Caller, effect: "Allow" | "Deny"): boolean {
  checkPrincipal(id, principal);
  if (principal === "*") return true;
  const { AWS, Service } = principal as JsonObject;
  const names = list(AWS);
  if (names.includes("*")) return true;
  if (caller === "anonymous") return false;
  if ("service" in caller) return list(Service).includes(caller.service);
  if (names.some((name) => name === roleArn(caller.role) || name === sessionArn(caller))) return true;
  return effect === "Deny" && names.some((name) => ACCOUNT_NAMES.includes(name));
}
