import { setTimeout as wait } from "node:timers/promises";
import type { ProblemJson } from "../api/json.ts";
import { CliError, EXIT, type Exit } from "./errors.ts";
import type { Stack } from "./stack.ts";

/** An error as the API words it. */
export class ApiError extends Error {
  readonly problem: ProblemJson;
  readonly exit: Exit;

  constructor(problem: ProblemJson) {
    super(`${problem.detail} (${problem.code})`);
    this.name = "ApiError";
    this.problem = problem;
    this.exit = exitFor(problem.status);
  }
}

export interface ApiClient {
  /**
   * Asks again while the API is throttled, for about three seconds: it has done nothing then.
   * Errors: ApiError for a problem, CliError STACK_SILENT without an answer, API_BUSY, API_ANSWER for a strange one.
   */
  call<T>(method: "GET" | "POST" | "PATCH" | "DELETE", path: string, body?: unknown): Promise<T>;
}

export function createClient(stack: Stack): ApiClient {
  return {
    async call<T>(method: string, path: string, body?: unknown): Promise<T> {
      const { status, text } = await sendPatiently(stack, method, path, body);
      if (status === THROTTLED) throw new CliError("API_BUSY", { request: `${method} ${path}` });
      const value = parsed(text);
      if (status < 300 && value !== undefined) return value as T;
      if (isProblem(value)) throw new ApiError(value);
      throw new CliError("API_ANSWER", { request: `${method} ${path}`, status, body: text.slice(0, 200) });
    },
  };
}

/** AWS Lambda answers so, without running the function, when it runs as often as it may at once. */
const THROTTLED = 429;
const BUSY_TRIES = 8;

async function sendPatiently(stack: Stack, method: string, path: string, body: unknown) {
  for (let tries = 1; ; tries++) {
    const answer = await send(stack, method, path, body);
    if (answer.status !== THROTTLED || tries === BUSY_TRIES) return answer;
    await wait(100 * tries);
  }
}

async function send({ dir, apiUrl }: Stack, method: string, path: string, body: unknown) {
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  const headers = { accept: "application/json", "content-type": "application/json" };
  try {
    const response = await fetch(`${apiUrl}${path}`, { method, headers, ...content });
    return { status: response.status, text: await response.text() };
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const reason = cause instanceof Error ? cause.message || cause.name : String(cause);
    throw new CliError("STACK_SILENT", { dir, url: apiUrl, reason }, { cause: error });
  }
}

/** A bad request is a usage error: what was wrong came from the command line. */
function exitFor(status: number): Exit {
  if (status === 400) return EXIT.usage;
  if (status === 404) return EXIT.notFound;
  return status === 423 ? EXIT.locked : EXIT.failed;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isProblem(value: unknown): value is ProblemJson {
  const { status, detail, code } = (value ?? {}) as Partial<ProblemJson>;
  return typeof status === "number" && typeof detail === "string" && typeof code === "string";
}
