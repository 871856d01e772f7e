/* The Lambda Runtime API for one sandbox, as AWS documents it for custom runtimes. */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { answering, readBody } from "../http.ts";

const PREFIX = "/2018-06-01/runtime";

/** What a runtime tells; each comes from one endpoint. */
export interface RuntimeCalls {
  /** The runtime is free. It waits until `deliver` is called. */
  next(deliver: (invocation: Delivery) => void): void;
  response(requestId: string, body: string): void;
  error(requestId: string, body: string): void;
  initError(body: string): void;
}

/** What a runtime gets for one invocation. */
export interface Delivery {
  readonly requestId: string;
  readonly arn: string;
  readonly deadline: number;
  readonly payload: string;
}

export interface RuntimeApi {
  /** host:port, the value of AWS_LAMBDA_RUNTIME_API. */
  readonly address: string;
  close(): void;
}

/** Serves the Runtime API on a free loopback port. */
export async function serveRuntimeApi(calls: RuntimeCalls): Promise<RuntimeApi> {
  const server = createServer(answering((incoming, outgoing) => route(calls, incoming, outgoing)));
  server.requestTimeout = 0;
  server.keepAliveTimeout = 0; // a frozen sandbox keeps its connection for minutes
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  server.unref();
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function route(calls: RuntimeCalls, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const path = incoming.url?.startsWith(PREFIX) ? incoming.url.slice(PREFIX.length) : "";
  if (incoming.method === "GET" && path === "/invocation/next") {
    calls.next(({ requestId, arn, deadline, payload }) => {
      outgoing.writeHead(200, {
        "content-type": "application/json",
        "content-length": Buffer.byteLength(payload),
        "Lambda-Runtime-Aws-Request-Id": requestId,
        "Lambda-Runtime-Deadline-Ms": String(deadline),
        "Lambda-Runtime-Invoked-Function-Arn": arn,
      });
      outgoing.end(payload);
    });
    return;
  }
  const body = await readBody(incoming);
  const [, requestId, what] = /^\/invocation\/([^/]+)\/(response|error)$/.exec(path) ?? [];
  if (incoming.method !== "POST" || !(requestId || path === "/init/error")) {
    outgoing.writeHead(404).end();
    return;
  }
  // Answered first: a sandbox that is frozen on its next call has to have read this one's answer.
  outgoing.writeHead(202, { "content-type": "application/json" }).end('{"status":"OK"}');
  if (!requestId) calls.initError(body);
  else if (what === "response") calls.response(requestId, body);
  else calls.error(requestId, body);
}
