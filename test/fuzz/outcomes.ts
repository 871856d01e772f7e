/* What became of everything that was sent, by queue and by route; and what should not have become of it. */

import { createTally, type Tally } from "../stress/tally.ts";
import type { WireAnswer } from "./wire.ts";

export interface Target {
  /** As `GET /volumes`, or `queue volumes`. */
  readonly name: string;
  sent: number;
  accepted: number;
  /** By code. */
  readonly refused: Tally;
}

export interface Outcomes {
  target(name: string): Target;
  all(): readonly Target[];
  /** Answers that must not be, one line each: the first ones, as the rest will be of the same kind. */
  readonly wrong: string[];
}

export function createOutcomes(): Outcomes {
  const targets = new Map<string, Target>();
  return {
    wrong: [],
    all: () => [...targets.values()],
    target(name) {
      const target = targets.get(name) ?? { name, sent: 0, accepted: 0, refused: createTally() };
      targets.set(name, target);
      return target;
    },
  };
}

const PROBLEM = "application/problem+json";

/** Lambda's own refusal of a payload that is too large: no function has seen it. */
const TOO_LARGE = 413;

/** Counts an answer of the API; answers why it must not be, if so. */
export function judge(target: Target, { status, type, text }: WireAnswer): string | undefined {
  target.sent++;
  if (status >= 200 && status < 300) {
    target.accepted++;
    return undefined;
  }
  if (status < 400 || status >= 500) {
    target.refused.add(`${status}`);
    return `${status} ${text.slice(0, 300)}`;
  }
  if (status === TOO_LARGE) return void target.refused.add("(Lambda) 413");
  const problem = type === PROBLEM ? parsed(text) : undefined;
  const code = String(problem?.["code"]);
  target.refused.add(code);
  const coded =
    /^[A-Z]+(_[A-Z]+)*$/.test(code) && problem?.["status"] === status && String(problem["detail"] ?? "") !== "";
  return coded ? undefined : `${status} without a code: ${type} ${text.slice(0, 300)}`;
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
