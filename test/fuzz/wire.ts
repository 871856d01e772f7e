/* One request over a kept connection, written as it is: no client corrects its path, headers or body. */

import { Agent, request } from "node:http";

export interface WireAnswer {
  /** 0: the connection ended without an answer. */
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

export interface WireRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
}

export interface Wire {
  send(request: WireRequest): Promise<WireAnswer>;
  close(): void;
}

/** Longer than any function of the API may run. */
const ANSWER_MS = 60_000;

/** Connections to a server, at most so many. */
export function openWire(url: string, connections: number): Wire {
  const { hostname: host, port } = new URL(url);
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  return {
    send: ({ method, path, headers, body }) =>
      new Promise((resolve) => {
        const bytes = Buffer.from(body ?? "");
        const length = body === undefined ? {} : { "content-length": String(bytes.length) };
        const lost = (error: Error) => resolve({ status: 0, type: "", text: String(error) });
        const sent = request(
          { host, port, agent, timeout: ANSWER_MS, method, path, headers: { ...headers, ...length } },
          (answer) => {
            const chunks: Buffer[] = [];
            answer.on("data", (chunk) => chunks.push(chunk));
            answer.on("error", lost);
            answer.on("end", () => {
              const type = answer.headers["content-type"] ?? "";
              resolve({ status: answer.statusCode!, type, text: Buffer.concat(chunks).toString("utf8") });
            });
          },
        );
        sent.on("error", lost);
        sent.on("timeout", () => sent.destroy(new Error(`no answer within ${ANSWER_MS} ms`)));
        sent.end(bytes);
      }),
    close: () => agent.destroy(),
  };
}
