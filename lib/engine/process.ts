import { inspect } from "node:util";
import type { Answer } from "../define/changes.ts";
import type { Pipeline, StateDefinition } from "../define/pipeline.ts";
import { MillraceError } from "../errors.ts";
import type { AnyChanges } from "./changes.ts";
import type { Held } from "./claim.ts";
import { keyOf } from "./key.ts";
import type { Ports } from "./ports.ts";

/** What a pass came to, before the database has heard of it. */
export type Ending =
  | { readonly kind: "apply"; readonly changes: AnyChanges; readonly snapshot: unknown }
  | { readonly kind: "retry"; readonly reason: string }
  | { readonly kind: "fail"; readonly error: unknown }
  /** A related row was not to be had: the row is given back with its owner kept. */
  | { readonly kind: "contention"; readonly phase: "lock"; readonly missing: readonly string[] }
  /** The lock was lost before there was anything to write. */
  | { readonly kind: "stale"; readonly phase: "lock" }
  | { readonly kind: "release" };

/** Kept back at the end of the function for what must still be written. */
export const FINISH_MS = 10_000;

/**
 * Runs the user's code over one held row, without a database in scope and never longer than allowed. Whatever it throws
 * is an ending too.
 */
export async function processItem(
  pipeline: Pipeline,
  held: Held,
  services: unknown,
  abort: AbortController,
  ports: Ports,
): Promise<Ending> {
  const { state } = held;
  if (state === null) return { kind: "release" };
  const seconds = Math.min(pipeline.options.processTimeoutSeconds, (ports.timeLeft() - FINISH_MS) / 1000);
  const timer = new AbortController();
  const timeout = ports.clock.wait(Math.max(0, seconds * 1000), timer.signal).then(() => {
    if (timer.signal.aborted) return undefined;
    const error =
      seconds < pipeline.options.processTimeoutSeconds
        ? new MillraceError("WORKER_ENDS", { pipeline: pipeline.name, id: held.id })
        : new MillraceError("PROCESS_TIMEOUT", { seconds });
    abort.abort(error);
    return error;
  });
  try {
    return await Promise.race([
      answerOf(pipeline, held, state, services, abort.signal, ports),
      timeout.then((error) =>
        error === undefined ? new Promise<never>(() => {}) : ({ kind: "fail", error } as const),
      ),
    ]);
  } catch (error) {
    return { kind: "fail", error };
  } finally {
    timer.abort();
  }
}

async function answerOf(
  pipeline: Pipeline,
  held: Held,
  { name, spec }: StateDefinition,
  services: unknown,
  signal: AbortSignal,
  ports: Ports,
): Promise<Ending> {
  const loaded = { row: held.row, now: held.now, related: relatedOf(held) };
  const extra: unknown = spec.load === undefined ? undefined : await spec.load(ports.reader, loaded as never);
  const key = keyOf(held.id, name, held.appliedToken);
  const snapshot = { ...loaded, extra, attempt: held.attempt, prevLockExpired: held.prevLockExpired, key, signal };
  const answer: unknown = await spec.process({ ...snapshot, apply, retry } as never, services as never);
  if (isAnswer(answer)) return answer.kind === "apply" ? { ...answer, snapshot } : answer;
  throw new MillraceError("ANSWER", { pipeline: `${pipeline.name}.${name}`, answer: inspect(answer, { depth: 1 }) });
}

/** The related rows as `process` sees them: a list where a lock can have many, else the row or null. */
function relatedOf({ state, related = {} }: Held): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(related).map(([name, rows]) => {
      const kind = state?.locks[name]?.kind;
      return [name, kind === "children" || kind === "parents" ? rows : (rows[0] ?? null)];
    }),
  );
}

const apply = (changes: AnyChanges) => ({ kind: "apply", changes });
const retry = (reason: string) => ({ kind: "retry", reason });

// biome-ignore lint/suspicious/noExplicitAny: the engine knows no schema
function isAnswer(answer: unknown): answer is Answer<any, any> {
  const { kind, changes, reason } = (answer ?? {}) as Readonly<Record<string, unknown>>;
  return kind === "apply"
    ? typeof changes === "object" && changes !== null
    : kind === "retry" && typeof reason === "string";
}
