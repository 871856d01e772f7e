interface CreateVolume {
  /** Idempotency key: calls with one key make one volume, however many there are and whoever makes them. */
  readonly key: string;
  /** Whose volume it is: the id of its row. */
  readonly tag: string;
  readonly name: string;
  readonly sizeGb: number;
}

interface DeleteVolume {
  /** Every volume with this tag is deleted, those included whose creation was never answered. */
  readonly tag: string;
  /** For the provider's log only. */
  readonly name: string;
}

interface CallOptions {
  /** Aborts the wait for an answer. The provider may carry the call out all the same. */
  readonly signal: AbortSignal;
}

/**
 * The provider of volumes, as the pipelines see it. Every call may be repeated: `createVolume` finds what an
 * earlier call with its key made, `deleteVolume` may find nothing left to do.
 *
 * Errors: `CloudError`, or the signal's reason when it aborts.
 */
export interface Cloud {
  createVolume(request: CreateVolume, options: CallOptions): Promise<{ readonly id: string }>;
  /** Final for the tag: a creation that arrives later is refused, so nothing is left behind. */
  deleteVolume(request: DeleteVolume, options: CallOptions): Promise<void>;
}
