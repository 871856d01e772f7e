import { createHash } from "node:crypto";

/** Names and payloads of everything that the engine reports. Each becomes one structured log line, and a metric. */
export interface EventPayloads {
  "items.fetched": { pipeline: string; count: number; expired: number };
  "items.queued": { pipeline: string; count: number };
  "items.refused": { pipeline: string; count: number; retrySeconds: number };
  "items.expired": { pipeline: string; count: number };
  "item.lost": { pipeline: string; id: string; attempts: number; dead: boolean };
  "item.claimed": { pipeline: string; id: string; token: string; attempt: number; state: string };
  "item.applied": { pipeline: string; id: string; token: string; attempt: number; state: string; ms: number };
  "item.already": { pipeline: string; id: string; token: string; phase: string };
  "item.stale": { pipeline: string; id: string; token: string; phase: string; orphan?: string };
  "item.unknown": { pipeline: string; id: string; token: string; phase: string; orphan?: string };
  /** Related rows were not to be had (`lock`) or lost (`apply`); the row comes again soon. */
  "item.contention": { pipeline: string; id: string; token: string; phase: string; missing: string };
  "item.retried": { pipeline: string; id: string; token: string; attempt: number; reason: string };
  "item.failed": {
    pipeline: string;
    id: string;
    token: string;
    attempt: number;
    code: string;
    error: string;
    retryInSeconds: number | null;
  };
  "item.dead": { pipeline: string; id: string; token: string; attempt: number; code: string; error: string };
  "item.released": { pipeline: string; id: string; token: string };
  "item.alone": { pipeline: string; id: string };
  "item.compensated": { pipeline: string; id: string; token: string };
  "message.malformed": { code: string; error: string; messageId: string };
  "message.unknown": { code: string; error: string; messageId: string };
  "message.kept": { pipeline: string; id: string; error: string };
  "claim.failed": { pipeline: string; id: string; error: string };
  "hint.skipped": { pipeline: string };
  "fetch.failed": { pipeline: string; error: string };
  "heartbeat.failed": { error: string };
  "renewal.failed": { pipeline: string; error: string };
  "finish.failed": { pipeline: string; step: string; error: string };
  "locks.extended": { pipeline: string; watched: number; extended: number; late: number; lost: number };
  "items.resent": { pipeline: string; count: number };
  "locks.swept": { table: string; unlocked: number; ended: number; deleted: number };
  "hint.failed": { error: string };
  "heartbeater.failed": { error: string };
}

export type EventName = keyof EventPayloads;

/** Where events go. */
export interface Events {
  emit<N extends EventName>(name: N, payload: EventPayloads[N]): void;
}

/** How loud an event is: what may be left behind at a provider is an error, whatever has happened. */
export const levelOf = (name: EventName, payload: object): "debug" | "info" | "warn" | "error" =>
  "orphan" in payload ? "error" : (LEVELS[name] ?? "info");

/** What an operator must look at, as against what merely happens. */
const LEVELS: Readonly<Partial<Record<EventName, "warn" | "error" | "debug">>> = {
  "item.stale": "warn",
  "item.unknown": "error",
  "item.lost": "warn",
  "item.failed": "warn",
  "item.dead": "error",
  "items.refused": "warn",
  "items.expired": "warn",
  "message.malformed": "error",
  "message.unknown": "error",
  "message.kept": "error",
  "claim.failed": "error",
  "fetch.failed": "error",
  "heartbeat.failed": "error",
  "renewal.failed": "warn",
  "finish.failed": "error",
  "hint.failed": "warn",
  "heartbeater.failed": "warn",
  "locks.swept": "warn",
  "items.resent": "warn",
  "hint.skipped": "debug",
};

/**
 * Texts of the application, of its providers and of senders: they may hold anything, so they stay with the item
 * (`last_error`) or the orphan, and go into no log.
 */
const UNLOGGED: Readonly<Partial<Record<EventName, string>>> = {
  "item.failed": "error",
  "item.dead": "error",
  "item.retried": "reason",
  "item.stale": "orphan",
  "item.unknown": "orphan",
  // quotes the message; its code and its id are enough to find it
  "message.unknown": "error",
};

/** What of an event goes into a log: no text that is not ours, and no token, which would be the lock itself. */
export function loggable(name: EventName, payload: object): Readonly<Record<string, unknown>> {
  const { token, ...rest } = payload as Record<string, unknown>;
  const kept = Object.entries(rest).filter(([field]) => field !== UNLOGGED[name]);
  return { ...Object.fromEntries(kept), ...(typeof token === "string" ? { pass: passOf(token) } : {}) };
}

/** Names the pass that holds a row with this token, and does not tell the token. */
export const passOf = (token: string): string => createHash("sha256").update(token).digest("hex").slice(0, 12);
