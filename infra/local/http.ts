/* Small things that every loopback server here needs. */

import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { LocalError } from "./errors.ts";

/** The whole body of a request as it came. Rejects when the caller goes away before its end. */
export async function readBytes(incoming: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** The whole body of a request as text. */
export const readBody = async (incoming: IncomingMessage): Promise<string> =>
  (await readBytes(incoming)).toString("utf8");

/** Path and query of a request. A path that is no URL (`//`) is a path all the same. */
export function urlOf({ url = "/" }: Pick<IncomingMessage, "url">): URL {
  if (url.startsWith("/")) return new URL(`http://local${url}`);
  return new URL(/^https?:/i.test(url) && URL.canParse(url) ? url : "http://local/");
}

/** A part of a path as it was meant; one that is encoded wrongly stands for itself. */
export function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/**
 * A listener out of an asynchronous one. What a caller sends, or that it goes away, never ends the process: whoever is
 * still there gets 500, and the next caller is served.
 */
export function answering(
  serve: (incoming: IncomingMessage, outgoing: ServerResponse) => Promise<void>,
): RequestListener {
  return (incoming, outgoing) =>
    void serve(incoming, outgoing).catch((error: unknown) => {
      if (outgoing.destroyed || outgoing.headersSent) return outgoing.destroy();
      const body = JSON.stringify({ code: "INTERNAL", message: `The local stack failed: ${String(error)}` });
      return outgoing.writeHead(500, { "content-type": "application/json" }).end(body);
    });
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
  // clients keep connections; one that we close just as it is used again would look like a lost answer
  server.keepAliveTimeout = 75_000;
  // an Expect that this server does not know is for the listener to ignore or refuse
  server.on("checkExpectation", listener);
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
