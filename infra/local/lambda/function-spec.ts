/* What the template says of one function. */

/** A function, its values resolved. */
export interface FunctionSpec {
  readonly name: string;
  readonly arn: string;
  /** The unpacked asset. */
  readonly taskRoot: string;
  readonly timeoutSeconds: number;
  readonly memoryMb: number;
  /** Most invocations at once; undefined: no limit of its own. */
  readonly reservedConcurrency: number | undefined;
  /** Everything that all of its processes find in their environment. */
  readonly environment: Readonly<Record<string, string>>;
}
