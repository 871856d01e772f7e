/* Who may call what: the policies of the template's roles, judged as IAM judges identity policies. */

import { LocalError } from "./errors.ts";
import type { Json, JsonObject } from "./template.ts";

interface Statement {
  readonly effect: "Allow" | "Deny";
  readonly actions: readonly RegExp[];
  readonly resources: readonly RegExp[];
}

/** A policy statement as a template writes it, resolved. */
export interface PolicyDocument {
  readonly Statement?: Json;
}

const many = (value: Json | undefined): readonly string[] =>
  value === undefined || value === null ? [] : Array.isArray(value) ? value.map(String) : [String(value)];

function pattern(glob: string, flags: string): RegExp {
  const escaped = glob.replace(/[.+^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`^${escaped.replaceAll("*", ".*").replaceAll("?", ".")}$`, flags);
}

/** The roles of one stack and what each may do. */
export class Roles {
  readonly #statements = new Map<string, Statement[]>();

  /** Adds the statements of a policy to a role. Throws PROPERTY_UNSUPPORTED for what is not judged here. */
  add(role: string, id: string, document: PolicyDocument): void {
    const statements = this.#statements.get(role) ?? [];
    const given = document.Statement;
    for (const each of (Array.isArray(given) ? given : [given]) as readonly JsonObject[]) {
      if (!each) continue;
      for (const property of ["NotAction", "NotResource", "Condition"]) {
        if (!(property in each)) continue;
        const value = JSON.stringify(each[property]);
        throw new LocalError("PROPERTY_UNSUPPORTED", { id, property, value, why: "policies are judged without it" });
      }
      statements.push({
        effect: each["Effect"] === "Deny" ? "Deny" : "Allow",
        actions: many(each["Action"]).map((action) => pattern(action, "i")),
        resources: many(each["Resource"]).map((resource) => pattern(resource, "")),
      });
    }
    this.#statements.set(role, statements);
  }

  /** Whether a role may do something: some statement allows it and none denies it. */
  allows(role: string, action: string, resource: string): boolean {
    const matching = (this.#statements.get(role) ?? []).filter(
      ({ actions, resources }) =>
        actions.some((each) => each.test(action)) && resources.some((each) => each.test(resource)),
    );
    return matching.some(({ effect }) => effect === "Allow") && !matching.some(({ effect }) => effect === "Deny");
  }
}

/** What AWS says to a caller whose role does not allow the call. */
export function deniedMessage(role: string, session: string, action: string, resource: string): string {
  const user = `arn:aws:sts::000000000000:assumed-role/${role}/${session}`;
  return `User: ${user} is not authorized to perform: ${action} on resource: ${resource} because no identity-based policy allows the ${action} action`;
}
