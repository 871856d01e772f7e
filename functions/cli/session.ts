import type { ApiClient } from "./client.ts";

/** What one command works with, once its options are known. */
export interface Session {
  readonly client: ApiClient;
  /** Prints the API's JSON with --json, else the text. */
  readonly print: (json: object, text: (now: Date) => string) => void;
  /** Whether --json was given. */
  readonly json: boolean;
  /** Writes to standard output as it is: what a job has written, or a line of a stream. */
  readonly write: (text: string) => void;
  /** Tells on standard error how it goes on. */
  readonly tell: (text: string) => void;
  /** Waits between two looks, in milliseconds; at once when `interrupted` aborts. */
  readonly pause: (milliseconds: number) => Promise<void>;
  /** Aborts when the user has had enough (Ctrl-C). */
  readonly interrupted: AbortSignal;
}
