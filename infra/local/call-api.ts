import { join } from "node:path";
import { LocalError } from "./errors.ts";
import type { Local } from "./state.ts";

/** The application's API, as the proof calls it. */
export interface Api {
  /** The answer's JSON. Throws API_FAILED. */
  call<T>(method: string, path: string, body?: unknown): Promise<T>;
  /** Whether there is nothing at a path. Throws API_FAILED. */
  gone(path: string): Promise<boolean>;
}

/** `stateDir` has the logs that an error names. */
export function createApi({ apiUrl }: Local, stateDir: string): Api {
  const send = async (method: string, path: string, body?: unknown) => {
    const json = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(apiUrl + path, { method, headers: { "content-type": "application/json" }, ...json });
    const text = await response.text();
    const failed = () => {
      const logs = join(stateDir, "logs");
      return new LocalError("API_FAILED", { method, path, status: response.status, body: text, logs });
    };
    return { response, text, failed };
  };
  return {
    async call(method, path, body) {
      const { response, text, failed } = await send(method, path, body);
      if (!response.ok) throw failed();
      return JSON.parse(text);
    },
    async gone(path) {
      const { response, failed } = await send("GET", path);
      if (!response.ok && response.status !== 404) throw failed();
      return response.status === 404;
    },
  };
}
