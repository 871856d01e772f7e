/* Small things that every loopback server here needs. */

import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { LocalError } from "./errors.ts";

/** The whole body of a request as text. */
export async function readBody(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}

export interface Listening {
  readonly server: Server;
  readonly port: number;
  readonly url: string;
  /** Stops listening and drops every connection. */
  close(): Promise<void>;
}

/** Listens on loopback; port 0 is any free one. Throws PORT_IN_USE, which names the option to change. */
export async function listen(
  listener: RequestListener,
  { port, what, option }: { readonly port: number; readonly what: string; readonly option: string },
): Promise<Listening> {
  const server = createServer(listener);
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      reject(error.code === "EADDRINUSE" ? new LocalError("PORT_IN_USE", { port, what, option }) : error);
    });
    server.listen(port, "127.0.0.1", resolve);
  });
  const bound = (server.address() as AddressInfo).port;
  return {
    server,
    port: bound,
    url: `http://127.0.0.1:${bound}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
