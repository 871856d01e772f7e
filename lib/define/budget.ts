import { MillraceError } from "../errors.ts";

/** Who uses the database, and with how many calls at once. */
export interface ConnectionUser {
  readonly name: string;
  /** Processes at once. */
  readonly concurrency: number;
  /** Data API calls at once in one process. */
  readonly callsInFlight: number;
}

/** Connections of a small Aurora instance that an application may use. */
export const CONNECTION_BUDGET = 80;

/**
 * The connections that all functions together can need at once, refused when over the budget.
 * @throws CONNECTION_BUDGET with the sum and its parts
 */
export function checkConnectionBudget(users: readonly ConnectionUser[], budget = CONNECTION_BUDGET): number {
  const sum = users.reduce((total, u) => total + u.concurrency * u.callsInFlight, 0);
  if (sum > budget) {
    const parts = users.map((u) => `${u.name} ${u.concurrency} × ${u.callsInFlight}`).join(" + ");
    throw new MillraceError("CONNECTION_BUDGET", { sum, parts, budget });
  }
  return sum;
}
