import type { ApiClient } from "./client.ts";

/** What one command works with, once its options are known. */
export interface Session {
  readonly client: ApiClient;
  /** Prints the API's JSON with --json, else the text. */
  readonly print: (json: object, text: (now: Date) => string) => void;
}
