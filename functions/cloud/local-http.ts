import { CloudError } from "./errors.ts";

interface Request {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly body?: unknown;
  readonly signal: AbortSignal;
}

/** One call of the local cloud, `op` for messages; answers the JSON body, undefined without one. */
export type Call = (op: string, request: Request) => Promise<unknown>;

/**
 * Calls of the service at `url`. Errors: CLOUD_UNREACHABLE without an answer, CLOUD_REFUSED (4xx) and CLOUD_FAILED
 * (5xx) with its `code`, CLOUD_ANSWER when it is no JSON, or the reason of the caller's signal.
 */
export function callsTo(url: string): Call {
  return async (op, { method, path, body, signal }) => {
    let status: number;
    let text: string;
    try {
      const init = body === undefined ? {} : { body: JSON.stringify(body), headers: JSON_BODY };
      const response = await fetch(`${url}${path}`, { method, signal, ...init });
      status = response.status;
      text = await response.text();
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      throw new CloudError("CLOUD_UNREACHABLE", { op, url, reason: reasonOf(error) }, { cause: error });
    }
    const answer = parsed(text);
    if (status >= 300) {
      const { code = "", message = text.slice(0, 200) } = objectOf(answer) ?? {};
      throw new CloudError(status < 500 ? "CLOUD_REFUSED" : "CLOUD_FAILED", { op, status, code, reason: message });
    }
    if (text !== "" && answer === undefined) {
      throw new CloudError("CLOUD_ANSWER", { op, url, reason: `no JSON in ${text.slice(0, 200)}` });
    }
    return answer;
  };
}

/** The value as an object; undefined when it is none. */
export function objectOf(value: unknown): Readonly<Record<string, unknown>> | undefined {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
}

const JSON_BODY = { "content-type": "application/json" };

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** fetch hides the socket's error behind "fetch failed". */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error ? cause.message || cause.name : String(cause);
}
