import type { Cloud } from "./cloud.ts";
import { CloudError } from "./errors.ts";

/** The provider of the local stack, over HTTP at `url` (no slash at its end). */
export function createLocalCloud(url: string): Cloud {
  return {
    async createVolume({ key, tag, name, sizeGb }, { signal }) {
      const op = "createVolume";
      const body = JSON.stringify({ key, tag, name, sizeGb });
      const headers = { "content-type": "application/json" };
      const text = await call(op, `${url}/volumes`, { method: "POST", headers, body, signal });
      const { id } = parsed(text) ?? {};
      if (typeof id === "string") return { id };
      throw new CloudError("CLOUD_ANSWER", { op, url, reason: `no id in ${text.slice(0, 200)}` });
    },
    async deleteVolume({ tag, name }, { signal }) {
      const query = new URLSearchParams({ tag, name });
      await call("deleteVolume", `${url}/volumes?${query}`, { method: "DELETE", signal });
    },
  };
}

/** The body of a good answer; everything else becomes a CloudError, or the reason of the caller's signal. */
async function call(op: string, url: string, init: RequestInit & { readonly signal: AbortSignal }): Promise<string> {
  let status: number;
  let text: string;
  try {
    const response = await fetch(url, init);
    status = response.status;
    text = await response.text();
  } catch (error) {
    if (init.signal.aborted) throw init.signal.reason;
    throw new CloudError("CLOUD_UNREACHABLE", { op, url, reason: reasonOf(error) }, { cause: error });
  }
  if (status < 300) return text;
  const { code = "", message = text.slice(0, 200) } = parsed(text) ?? {};
  throw new CloudError(status < 500 ? "CLOUD_REFUSED" : "CLOUD_FAILED", { op, status, code, reason: message });
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** fetch hides the socket's error behind "fetch failed". */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error ? cause.message || cause.name : String(cause);
}
