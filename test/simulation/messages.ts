/* What a simulating process and its parent say to each other. */

/** A run that is wanted. */
export interface Wanted {
  readonly seed: number;
  /** Instead of what the seed would choose. */
  readonly choices?: readonly number[];
  /** Answer the story too. */
  readonly tell: boolean;
}

/** A run that was made. */
export interface Made {
  readonly seed: number;
  readonly violations: readonly string[];
  readonly steps: number;
  readonly statements: number;
  readonly accepted: number;
  readonly faults: readonly (readonly [string, number])[];
  readonly choices: readonly number[];
  readonly story: readonly string[];
}
