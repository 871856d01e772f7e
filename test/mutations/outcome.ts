import { styleText } from "node:util";
import type { Mutation } from "./mutation.ts";

/** What became of a mutation. */
export type Outcome =
  | { readonly kind: "caught"; readonly by: string }
  | { readonly kind: "survived" }
  | { readonly kind: "covered" }
  | { readonly kind: "error"; readonly why: string };

/** Failures that come from a broken text, not from a missing guard. */
const BROKEN = /syntax error|SQLSTATE: 42|SQLState: 42|SyntaxError|does not exist|is not defined/;

/** What a failure says: that the guard is missed, or only that the text is broken. */
export const outcomeOf = (failure: string, by: string): Outcome =>
  BROKEN.test(failure) ? { kind: "error", why: failure } : { kind: "caught", by };

/** What nobody notices is right where another guard covers it, and only there. */
export function judged({ reason }: Mutation, outcome: Outcome): Outcome {
  if (reason === undefined) return outcome;
  if (outcome.kind === "survived") return { kind: "covered" };
  if (outcome.kind === "caught") return { kind: "error", why: `caught by ${outcome.by}, though: ${reason}` };
  return outcome;
}

export const isRight = ({ kind }: Outcome): boolean => kind === "caught" || kind === "covered";

export function report({ file, guard, remove, reason }: Mutation, outcome: Outcome): void {
  console.log(`${styleText(isRight(outcome) ? "green" : "red", outcome.kind)} ${file}: ${guard}`);
  if (outcome.kind === "caught") console.log(`  by: ${outcome.by}`);
  if (outcome.kind === "covered") console.log(`  because: ${reason}`);
  if (outcome.kind === "survived") console.log(`  without: ${remove}`);
  if (outcome.kind === "error") console.log(`  ${outcome.why.split("\n").slice(0, 3).join("\n  ")}`);
}

/** @returns the process's exit code: 0 if all is as it must be */
export function summarize(outcomes: readonly Outcome[]): number {
  const count = (kind: Outcome["kind"]) => outcomes.filter((o) => o.kind === kind).length;
  const errors = count("error");
  const parts = [`${count("caught")} caught`, `${count("covered")} covered by another guard`];
  console.log([...parts, `${count("survived")} survived`, ...(errors > 0 ? [`${errors} in error`] : [])].join(", "));
  return outcomes.every(isRight) ? 0 : 1;
}
