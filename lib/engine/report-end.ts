import type { Pipeline } from "../define/pipeline.ts";
import { MillraceError } from "../errors.ts";
import type { EndRow } from "../sql/end.ts";
import type { Held } from "./claim.ts";
import type { Ports } from "./ports.ts";

/** The longest error text that is kept. */
const MOST_TEXT = 2_000;

interface Ended {
  readonly held: Held;
  readonly reason?: string;
  readonly error?: unknown;
}

/** Says how a pass ended that was not applied. */
export function reportEnd(
  pipeline: Pipeline,
  { held, reason = "", error }: Ended,
  step: "fail" | "reset" | "release",
  row: EndRow,
  { events }: Ports,
): void {
  const about = { pipeline: pipeline.name, id: held.id, token: held.token };
  const { attempt } = held;
  if (row.result === "stale") events.emit("item.stale", { ...about, phase: step });
  else if (row.result === "already") events.emit("item.already", { ...about, phase: step });
  else if (step === "release") events.emit("item.released", about);
  else if (step === "reset") events.emit("item.retried", { ...about, attempt, reason });
  else if (row.state === "dead")
    events.emit("item.dead", { ...about, attempt, code: codeOf(error), error: textOf(error) });
  else
    events.emit("item.failed", {
      ...about,
      attempt,
      code: codeOf(error),
      error: textOf(error),
      retryInSeconds: row.due_in,
    });
}

/** An error as it is kept with the item. */
export function textOf(error: unknown): string {
  if (error instanceof MillraceError) return keptText(`${error.code}: ${error.message}`);
  try {
    return keptText(String(error instanceof Error ? error.message : error));
  } catch {
    return "an error without a text";
  }
}

/** An error by its code, or else its class: what a log tells of one whose text may hold anything. */
export function codeOf(error: unknown): string {
  const { code, name } = (error ?? {}) as { readonly code?: unknown; readonly name?: unknown };
  if (typeof code === "string" && /^[A-Z][A-Z0-9_]{0,63}$/.test(code)) return code;
  return typeof name === "string" && /^[A-Za-z]\w{0,63}$/.test(name) ? name : typeof error;
}

/** Text that PostgreSQL takes, or the statement that says why would fail itself: no NUL, no half of a character. */
export const keptText = (text: string): string => text.slice(0, MOST_TEXT).replaceAll("\0", "\ufffd").toWellFormed();
