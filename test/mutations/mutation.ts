/** One guard taken out of the source: some test must notice. */
export interface Mutation {
  /** Path from the repository's root. */
  readonly file: string;
  /** Exact source text; occurs once in the file. */
  readonly remove: string;
  /** What stands there instead. @default nothing */
  readonly by?: string;
  /** Test files of which one must fail. */
  readonly tests: readonly string[];
  /** What the text guards. */
  readonly guard: string;
}
