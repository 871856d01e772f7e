import { MillraceError } from "../../lib/index.ts";

/**
 * What the log tells of an error that nobody foresaw: its class, its code and where it came from. Its text only where it
 * is one of the engine's: another's may quote the request.
 */
export function errorLine(error: unknown): Readonly<Record<string, unknown>> {
  if (!(error instanceof Error)) return { type: typeof error };
  // the text comes first in it, and may have lines that look like places
  const places = (error.stack ?? "").slice(`${error.name}: ${error.message}`.length);
  const stack = places.split("\n").filter((line) => /^\s+at /.test(line));
  const own = error instanceof MillraceError ? { code: error.code, error: error.message } : {};
  return { type: error.constructor.name, ...own, stack };
}
