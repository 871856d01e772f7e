/* Judges calls while the stack runs, and remembers them. */

import type { Grant, Judgement, Need, Policies } from "./policies.ts";
import type { Caller } from "./principals.ts";
import { type Refusal, refusalError } from "./refusals.ts";

/** A call that was made, as often as it was. */
export interface RecordedCall {
  readonly caller: Caller;
  readonly need: Need;
  readonly judgement: Judgement;
}

const keyOf = ({ role, policy, action, resource }: Grant) => JSON.stringify([role, policy, action, resource]);

/** The door of a running stack. */
export class Access {
  readonly policies: Policies;
  readonly #names: ReadonlyMap<string, string>;
  readonly #calls = new Map<string, RecordedCall>();
  readonly #used = new Set<string>();
  readonly #tell: (refusal: Refusal) => void;
  #first: Refusal | undefined;

  /** `names` are logical ids by ARN; `tell` is called with each refusal once, however often it is repeated. */
  constructor(policies: Policies, names: ReadonlyMap<string, string>, tell: (refusal: Refusal) => void) {
    this.policies = policies;
    this.#names = names;
    this.#tell = tell;
  }

  /** Judges a call; answers the refusal when it is refused. */
  check(caller: Caller, need: Need): Refusal | undefined {
    const key = JSON.stringify([caller, need.action, need.resource]);
    const known = this.#calls.get(key);
    const judgement = known?.judgement ?? this.policies.judge(caller, need);
    for (const grant of judgement.by) this.#used.add(keyOf(grant));
    if (!known) this.#calls.set(key, { caller, need, judgement });
    if (judgement.refused === undefined) return undefined;
    const refusal: Refusal = { caller, need, reason: judgement.refused, name: this.nameOf(need.resource) };
    this.#first ??= refusal;
    if (!known) this.#tell(refusal);
    return refusal;
  }

  /** Judges a call that nobody can be answered about. Throws ACCESS_DENIED. */
  must(caller: Caller, need: Need): void {
    const refusal = this.check(caller, need);
    if (refusal) throw refusalError(refusal);
  }

  /** The first refusal since the start. */
  get refused(): Refusal | undefined {
    return this.#first;
  }

  /** Every different call so far. */
  get calls(): readonly RecordedCall[] {
    return [...this.#calls.values()];
  }

  /** The grants that no call has made use of. */
  unused(): readonly Grant[] {
    return this.policies.grants().filter((grant) => !this.#used.has(keyOf(grant)));
  }

  /** The logical id of what an ARN names, or of what contains it. */
  nameOf(resource: string): string | undefined {
    const whole = resource.replace(/:log-stream:.*$/, "").replace(/(:function:[^:]+):.*$/, "$1");
    return this.#names.get(whole);
  }
}
