interface Change {
  /** Exact source text; occurs once in the file. */
  readonly remove: string;
  /** What stands there instead. @default nothing */
  readonly by?: string;
}

/** One guard taken out of the source: some test must notice. */
export interface Mutation extends Change {
  /** Path from the repository's root. */
  readonly file: string;
  /** Where the same file repeats the guard: taken out with it. */
  readonly also?: readonly Change[];
  /** Test files of which one must fail. */
  readonly tests: readonly string[];
  /** What the text guards. */
  readonly guard: string;
}
