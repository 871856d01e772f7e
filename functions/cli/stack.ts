import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { CliError } from "./errors.ts";

export interface Stack {
  /** The state folder. */
  readonly dir: string;
  /** The API's address, without a slash at its end. */
  readonly apiUrl: string;
}

/** Where a stack keeps its state when nobody says otherwise: `.millrace` in the working directory. */
export const DEFAULT_STATE_DIR = ".millrace";

/**
 * The running stack, by its state folder: a running one has a `local.json` there.
 *
 * Errors: NO_STACK without that file, STACK_FILE when it cannot be used.
 */
export function findStack(stateDir: string, cwd: string): Stack {
  const dir = resolve(cwd, stateDir);
  const file = join(dir, "local.json");
  const text = read(file, dir);
  const { apiUrl } = parse(text, file);
  if (typeof apiUrl !== "string") throw new CliError("STACK_FILE", { file, problem: "has no apiUrl" });
  return { dir, apiUrl: apiUrl.replace(/\/+$/, "") };
}

function read(file: string, dir: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new CliError("NO_STACK", { dir }, { cause: error });
  }
}

function parse(text: string, file: string): { readonly apiUrl?: unknown } {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value;
  } catch {}
  throw new CliError("STACK_FILE", { file, problem: "is not JSON" });
}
