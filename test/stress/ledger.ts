/** Kinds of statements that end an item. */
export type Finish = "apply" | "reset" | "fail" | "release";
/** `none`: the statement failed for good, so nobody knows. */
export type FinishResult = "applied" | "ended" | "already" | "contention" | "stale" | "none";

/** One sending of a finish; times of this process in ms. */
export interface Sending {
  readonly kind: Finish;
  readonly sentAt: number;
  readonly answeredAt: number;
  readonly result: FinishResult;
  /** An attempt got no answer before this one did. */
  readonly unanswered: boolean;
}

/** A claim that was answered `ours`. */
export interface Claim {
  readonly pipeline: string;
  readonly id: string;
  readonly token: string;
  /** The token of its message. */
  readonly message: string;
  /** Database time of the claim, in ms; of the earlier one where it was answered twice. */
  readonly at: number;
}

/** A related row that was locked. */
export interface RelatedHold {
  readonly id: string;
  readonly token: string;
  /** The main row. */
  readonly item: string;
  /** When the lock was known, in ms since 1970, and until when it lasts if nobody loosens it. */
  readonly at: number;
  readonly until: number;
}

/** What the senders saw, kept outside the database: by the worker's token, which nobody else ever has. */
export interface Ledger {
  claimed(claim: Claim): void;
  /** Related rows were answered `locked`; those of a token are told once. */
  locked(holds: readonly RelatedHold[]): void;
  sent(pipeline: string, id: string, token: string, sending: Sending): void;
  /** Somebody shortens or removes this row's lock at about this time, beside the protocol. */
  loosened(id: string): void;
  /** When locks were loosened, by row, in ms since 1970. */
  readonly loosenings: ReadonlyMap<string, readonly number[]>;
  readonly claims: ReadonlyMap<string, Claim>;
  readonly holds: readonly RelatedHold[];
  /** Every token that was sent with a finish. */
  readonly finishes: ReadonlyMap<string, Finishing>;
}

export interface Finishing {
  readonly pipeline: string;
  readonly id: string;
  readonly token: string;
  readonly sendings: readonly Sending[];
}

export function createLedger(): Ledger {
  const claims = new Map<string, Claim>();
  const holds: RelatedHold[] = [];
  const finishes = new Map<string, Finishing & { sendings: Sending[] }>();
  const loosenings = new Map<string, number[]>();
  return {
    claims,
    holds,
    locked: (rows) => void holds.push(...rows),
    finishes,
    loosenings,
    loosened: (id) => void loosenings.set(id, [...(loosenings.get(id) ?? []), Date.now()]),
    claimed(claim) {
      const known = claims.get(claim.token);
      claims.set(claim.token, known && known.at < claim.at ? known : claim);
    },
    sent(pipeline, id, token, sending) {
      const known = finishes.get(token);
      if (known) known.sendings.push(sending);
      else finishes.set(token, { pipeline, id, token, sendings: [sending] });
    },
  };
}
