/** What the HTTP API answers. Times are ISO 8601 in UTC. */

export type VolumeStatus = "submitted" | "active" | "failed" | "deleting";

export interface VolumeJson {
  readonly id: string;
  readonly name: string;
  readonly sizeGb: number;
  /** `failed`: given up after the last attempt; what was wanted is in `lastError`. `deleting`: on its way out. */
  readonly status: VolumeStatus;
  /** Attempts at the pass that is due or under way; 0 after a success. */
  readonly attempts: number;
  readonly lastError: string | null;
  /** When the next pass is due; null when none is planned. */
  readonly nextTryAt: string | null;
  readonly lockOwner: string | null;
  readonly lockExpiresAt: string | null;
  readonly createdAt: string;
  readonly lastProcessedAt: string;
}

export interface PipelineJson {
  readonly name: string;
  readonly table: string;
  readonly pausedAt: string | null;
  readonly pausedBy: string | null;
  /** When a fetcher last looked. */
  readonly fetchedAt: string | null;
  /** Items by where they are. */
  readonly inFlight: { readonly locked: number; readonly queued: number; readonly processing: number };
  /** Rows that want a pass now and that nobody holds, counted up to 10,000. */
  readonly due: number;
  /** Rows that failed and wait for another try. */
  readonly failed: number;
  /** Rows that failed as often as they may; a new request revives one. */
  readonly dead: number;
}

export interface ListJson<T> {
  readonly items: readonly T[];
  /** Hand it back as `cursor` for the next page; null on the last one. */
  readonly nextCursor: string | null;
}

/** An error, as application/problem+json. */
export interface ProblemJson {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  /** For programs. */
  readonly code: string;
  /** What is wrong with which field of the body or the query, where it is that. */
  readonly fields?: readonly { readonly field: string; readonly problem: string }[];
}
