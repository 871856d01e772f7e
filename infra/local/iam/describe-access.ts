/* What a stack has recorded of its roles, in a form that is the same for every run. */

import type { Access, RecordedCall } from "./access.ts";
import type { Grant } from "./policies.ts";

/** A call of a role: logical id of the role, action, ARN. */
export interface CallOfRole {
  readonly role: string;
  readonly action: string;
  readonly resource: string;
}

/** The answer of `GET /access` of the control server. */
export interface AccessReport {
  /** Every different call of a role that was allowed. */
  readonly calls: readonly CallOfRole[];
  readonly refused: readonly CallOfRole[];
  /** Grants that no call has made use of. */
  readonly unused: readonly Grant[];
  /** How many grants there are. */
  readonly grants: number;
}

/** Describes it: names that differ from run to run become placeholders of IAM's. */
export function describeAccess(access: Access, secretSuffix: string): AccessReport {
  const stable = (arn: string) =>
    arn.replace(`-${secretSuffix}`, "-??????").replace(/(\[\$LATEST\])[0-9a-f]{16}$/, "$1*");
  const ofRoles = (refused: boolean) => {
    const wanted = access.calls.filter(({ judgement }) => (judgement.refused !== undefined) === refused);
    return distinct(wanted.flatMap((call) => callOf(call, stable)));
  };
  return {
    calls: ofRoles(false),
    refused: ofRoles(true),
    unused: access.unused().map((grant) => ({ ...grant, resource: stable(grant.resource) })),
    grants: access.policies.grants().length,
  };
}

function callOf({ caller, need }: RecordedCall, stable: (arn: string) => string): readonly CallOfRole[] {
  if (caller === "anonymous" || !("role" in caller)) return [];
  return [{ role: caller.role, action: need.action, resource: stable(need.resource) }];
}

function distinct(calls: readonly CallOfRole[]): readonly CallOfRole[] {
  const lines = new Set(calls.map(({ role, action, resource }) => JSON.stringify({ role, action, resource })));
  return [...lines].sort().map((line) => JSON.parse(line) as CallOfRole);
}
