interface CallOptions {
  /** Aborts the wait for an answer. The provider may carry the call out all the same. */
  readonly signal: AbortSignal;
}

interface CreateVolume {
  /** Idempotency key: calls with one key make one volume, however many there are and whoever makes them. */
  readonly key: string;
  /** Whose volume it is: the id of its row. */
  readonly tag: string;
  readonly name: string;
  readonly sizeGb: number;
}

interface CreateInstance {
  /** Idempotency key, as for volumes. */
  readonly key: string;
  /** Whose instance it is: the id of its row. */
  readonly tag: string;
  readonly name: string;
}

interface OfOwner {
  /** Everything with this tag, what was never answered included. */
  readonly tag: string;
  /** For the provider's log only. */
  readonly name: string;
}

export interface Attachment {
  readonly volumeId: string;
  readonly instanceId: string;
}

export interface RunCommand {
  /** Idempotency key: a command runs once, however often it is asked for. */
  readonly key: string;
  readonly instanceId: string;
  /** Program and arguments; no shell is put in between. */
  readonly command: readonly string[];
  /** Attached volumes that the command sees, each as the folder `name` in its working directory. */
  readonly volumes: readonly { readonly id: string; readonly name: string }[];
}

/** `lost`: the machine that ran it is gone, and so is its exit code. */
export type CommandState =
  | { readonly state: "running" }
  | { readonly state: "exited"; readonly exitCode: number }
  | { readonly state: "lost"; readonly reason: string };

/** `gone`: never made, deleted, or dead for good. */
export type InstanceState = "starting" | "running" | "gone";

/**
 * The provider of volumes and instances, as the pipelines see it. Every call may be repeated: creations find what an
 * earlier call with their key made, deletions may find nothing left to do.
 *
 * Errors: `CloudError`, or the signal's reason when it aborts.
 */
export interface Cloud {
  createVolume(request: CreateVolume, options: CallOptions): Promise<{ readonly id: string }>;
  /** Final for the tag: a creation that arrives later is refused, so nothing is left behind. */
  deleteVolume(request: OfOwner, options: CallOptions): Promise<void>;
  /** The ids of what the tag has. */
  findVolumes(tag: string, options: CallOptions): Promise<readonly string[]>;

  createInstance(request: CreateInstance, options: CallOptions): Promise<{ readonly id: string }>;
  instanceState(id: string, options: CallOptions): Promise<InstanceState>;
  /** Final for the tag; ends what runs on it. */
  deleteInstance(request: OfOwner, options: CallOptions): Promise<void>;
  findInstances(tag: string, options: CallOptions): Promise<readonly string[]>;

  /** A volume is attached to one instance at a time. @throws CLOUD_REFUSED (code VOLUME_IN_USE) while another has it */
  attachVolume(attachment: Attachment, options: CallOptions): Promise<void>;
  /** Nothing to do when it is not attached there, or either is gone. */
  detachVolume(attachment: Attachment, options: CallOptions): Promise<void>;

  runCommand(request: RunCommand, options: CallOptions): Promise<{ readonly id: string }>;
  commandState(id: string, options: CallOptions): Promise<CommandState>;
  /** Asks it to end (SIGTERM), and ends it after `graceSeconds` (SIGKILL). Does not wait for either. */
  stopCommand(id: string, graceSeconds: number, options: CallOptions): Promise<void>;
  /** What it has written (standard output and error together) from a byte offset on; `next` is the next offset. */
  readOutput(id: string, from: number, options: CallOptions): Promise<{ readonly text: string; readonly next: number }>;
}
