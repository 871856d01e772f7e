/* What goes wrong with a queue on purpose: each fault is spent on the next messages that are sent to it. */

import { LocalError } from "../errors.ts";

export const QUEUE_FAULT_KINDS = ["drop", "duplicate", "delay", "refuse", "reorder"] as const;

/** `seconds` is how long delay and reorder hold a message back at most, and when the copy of a duplicate comes. */
export interface QueueFault {
  readonly kind: (typeof QUEUE_FAULT_KINDS)[number];
  readonly count: number;
  readonly seconds?: number;
}

/** The faults of all queues, in the order in which they were given. */
export class QueueFaults {
  readonly #byQueue = new Map<string, { fault: QueueFault; left: number }[]>();

  /** Adds a fault. Throws BAD_REQUEST for one that makes no sense. */
  add(queue: string, fault: QueueFault): void {
    const entries = this.#byQueue.get(queue) ?? [];
    entries.push({ fault, left: fault.count });
    this.#byQueue.set(queue, entries);
  }

  /** The fault that hits the message being sent now, if any is left. */
  take(queue: string): QueueFault | undefined {
    const entries = this.#byQueue.get(queue);
    const first = entries?.[0];
    if (!entries || !first) return undefined;
    first.left -= 1;
    if (first.left === 0) entries.shift();
    return first.fault;
  }

  list(queue: string): readonly (QueueFault & { readonly left: number })[] {
    return (this.#byQueue.get(queue) ?? []).map(({ fault, left }) => ({ ...fault, left }));
  }

  clear(queue: string): void {
    this.#byQueue.delete(queue);
  }
}

/** A fault out of a JSON body. Throws BAD_REQUEST that names the field. */
export function parseQueueFault(body: unknown): QueueFault {
  const bad = (field: string, problem: string) => new LocalError("BAD_REQUEST", { field, problem });
  if (body === null || typeof body !== "object") throw bad("body", "must be a JSON object");
  const { kind, count = 1, seconds } = body as Record<string, unknown>;
  const known = QUEUE_FAULT_KINDS.find((each) => each === kind);
  if (!known) throw bad("kind", `must be one of ${QUEUE_FAULT_KINDS.join(", ")}`);
  if (!Number.isInteger(count) || Number(count) < 1) throw bad("count", "must be a whole number of at least 1");
  if (seconds !== undefined && !(typeof seconds === "number" && seconds >= 0 && seconds <= 43_200)) {
    throw bad("seconds", "must be a number from 0 to 43200");
  }
  if (known === "delay" && seconds === undefined) throw bad("seconds", "is needed for delay");
  return { kind: known, count: Number(count), ...(seconds === undefined ? {} : { seconds }) };
}
