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
  /** Where the same guard is repeated, in the same file or another: taken out with it. */
  readonly also?: readonly (Change & { readonly file?: string })[];
  /** Test files of which one must fail. */
  readonly tests: readonly string[];
  /** What the text guards. */
  readonly guard: string;
  /**
   * Only where no test can notice: why the text may be missing alone, and which other guard stands behind it. Then the
   * tests must pass, and another entry that takes out both must be caught.
   */
  readonly reason?: string;
}
