import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { LocalError } from "../errors.ts";
import { answering, urlOf } from "../http.ts";
import type { DataApi } from "./index.ts";

/** A Data API that listens by itself, without the other services of the stack. */
export interface Listener {
  readonly url: string;
  /** Stops listening and drops every connection; the DataApi itself stays. */
  close(): Promise<void>;
}

const BODY_LIMIT = 4 * 1_048_576;

/** Serves `api` on 127.0.0.1; signatures are not looked at. Port 0 takes any free one. PORT_IN_USE. */
export function listenDataApi(api: DataApi, { port }: { readonly port: number }): Promise<Listener> {
  const server = createServer(answering((request, response) => serve(api, request, response)));
  // Clients keep connections; one that we close just as it is used again would look like a lost answer.
  server.keepAliveTimeout = 75_000;
  return new Promise((done, failed) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      const details = { what: "the Data API", port, option: "another port" };
      failed(cause.code === "EADDRINUSE" ? new LocalError("PORT_IN_USE", details, { cause }) : cause);
    });
    server.listen(port, "127.0.0.1", () => {
      const address = server.address();
      const url = `http://127.0.0.1:${typeof address === "object" && address ? address.port : port}`;
      const close = () =>
        new Promise<void>((closed) => {
          server.close(() => closed());
          server.closeAllConnections();
        });
      done({ url, close });
    });
  });
}

async function serve(api: DataApi, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of request) {
      size += chunk.length;
      if (size <= BODY_LIMIT) chunks.push(chunk);
    }
  } catch {
    return;
  }
  const path = request.method === "POST" ? urlOf(request).pathname : "";
  const answer =
    size > BODY_LIMIT
      ? { status: 413, headers: {}, body: "" }
      : await api.handle(path, Buffer.concat(chunks).toString("utf8"));
  if (answer === "lost") request.socket.destroy();
  else response.writeHead(answer.status, answer.headers).end(answer.body);
}
