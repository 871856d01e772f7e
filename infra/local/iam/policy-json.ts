/* Policies as templates write them. */

import { LocalError } from "../errors.ts";
import type { Json, JsonObject } from "../template.ts";

/** A policy document, resolved. */
export interface PolicyDocument {
  readonly Statement?: Json;
}

/** One value or several, as policies may have either. */
export function list(value: Json | undefined): readonly string[] {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value.map(String) : [String(value)];
}

/** The statements of a document. */
export function statementsOf(document: PolicyDocument): readonly JsonObject[] {
  const given = document.Statement;
  if (given === undefined || given === null) return [];
  return (Array.isArray(given) ? given : [given]) as readonly JsonObject[];
}

/** The error for a part of a policy that is not evaluated here. */
export function unsupported(id: string, what: string): LocalError {
  return new LocalError("POLICY_UNSUPPORTED", { id, what });
}
