/** What the HTTP API answers. Times are ISO 8601 in UTC. */

/** What every row that pipelines work on has. */
export interface EngineJson {
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

export type VolumeStatus = "submitted" | "active" | "failed" | "deleting";

export interface VolumeJson extends EngineJson {
  readonly id: string;
  readonly name: string;
  readonly sizeGb: number;
  /** `failed`: given up after the last attempt; what was wanted is in `lastError`. `deleting`: on its way out. */
  readonly status: VolumeStatus;
}

export type InstanceStatus = "pending" | "provisioning" | "idle" | "busy" | "terminating" | "terminated";

export interface FleetJson extends EngineJson {
  readonly id: string;
  readonly name: string;
  /** Instances that it is to have. */
  readonly nodes: number;
  /** Jobs that each instance runs at once. */
  readonly slots: number;
  /** `deleting`: on its way out; it goes when its instances and jobs have ended. */
  readonly status: "active" | "deleting";
  readonly statusMessage: string | null;
  /** Instances that it has, by status; a status that none has is left out. */
  readonly instances: Readonly<Partial<Record<InstanceStatus, number>>>;
}

export interface InstanceJson extends EngineJson {
  readonly id: string;
  readonly fleetId: string;
  /** Its place in the fleet; the number of one that is gone is used again. */
  readonly number: number;
  readonly status: InstanceStatus;
  /** Jobs on it. */
  readonly busy: number;
  readonly slots: number;
  /** The cloud's id of it; null until it was created. */
  readonly providerId: string | null;
  readonly statusMessage: string | null;
}

export type JobStatus = "submitted" | "provisioning" | "running" | "terminating" | "done" | "failed" | "terminated";

export interface JobJson extends EngineJson {
  readonly id: string;
  /** Null when the fleet is gone. */
  readonly fleetId: string | null;
  readonly fleetName: string | null;
  /** Program and arguments. */
  readonly command: readonly string[];
  readonly volumeIds: readonly string[];
  /** `submitted`: waits for an instance. `done`: ended with 0; `failed`: with something else, or lost; `terminated`: stopped. */
  readonly status: JobStatus;
  readonly stopRequested: boolean;
  /** Null until it is placed, and when the instance is gone. */
  readonly instanceId: string | null;
  readonly exitCode: number | null;
  readonly statusMessage: string | null;
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
}

/** What a job has written, from the byte that was asked for. */
export interface OutputJson {
  readonly text: string;
  /** So many bytes before the text are no longer kept; left out when there are none. */
  readonly skipped?: number;
  /** Hand it back as `from` for what comes next. */
  readonly next: number;
  /** Nothing comes after this. */
  readonly ended: boolean;
}

export interface EventJson {
  readonly id: string;
  readonly at: string;
  readonly kind: "volume" | "fleet" | "instance" | "job";
  /** What it happened to. */
  readonly subjectId: string;
  readonly message: string;
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
