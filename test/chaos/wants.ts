/* What was asked for, and what is known of the answer: after a lost one a thing may be there or not. */

/** Of a request: done, refused, or nobody knows because the answer was lost. */
export type Known = "yes" | "no" | "unknown";

interface Want {
  readonly name: string;
  /** Set by the answer, or found by the name at the end. */
  id: string | undefined;
  created: Known;
  /** Whether its deletion was accepted. */
  deleted: Known;
}

export type VolumeWant = Want;

export interface FleetWant extends Want {
  /** The last size that was accepted. */
  nodes: number;
  /** Sizes whose answer was lost: each may have come about, or still come, as what was asked for waits somewhere. */
  readonly maybe: number[];
  /** One at a time, so that it is known which was the last. */
  resizing: boolean;
}

/** How a command ends when nothing goes wrong with its instance. */
export type Ending = "done" | "fails" | "long";

export interface JobWant extends Want {
  readonly fleet: FleetWant;
  readonly volumes: readonly VolumeWant[];
  readonly ending: Ending;
  stopped: Known;
}

export interface Wants {
  readonly volumes: VolumeWant[];
  readonly fleets: FleetWant[];
  readonly jobs: JobWant[];
  /** Answers that no fault explains. */
  readonly surprises: string[];
  /** Instances whose process was killed, by the cloud's id. */
  readonly killedInstances: Set<string>;
}

export const noWants = (): Wants => ({
  volumes: [],
  fleets: [],
  jobs: [],
  surprises: [],
  killedInstances: new Set(),
});

/** It is there and is to stay, as far as anybody knows. */
export const isAlive = (want: Want): want is Want & { id: string } =>
  want.created === "yes" && want.deleted === "no" && want.id !== undefined;

/** Code of a command of kind `fails`. */
export const FAILING_CODE = 3;
/** What a command writes at its end. */
export const lastWords = (job: string): string => `bye from ${job}`;
