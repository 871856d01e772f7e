import { mkdirSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { decoded, urlOf } from "../http.ts";
import { openCommands } from "./commands.ts";
import { type CloudFaults, createFaults } from "./faults.ts";
import { openInstances } from "./instances.ts";
import { type CloudLog, openLog } from "./log.ts";
import { createOperations } from "./operations.ts";
import { type CloudAnswer, failure, type RouteParts, route } from "./routes.ts";
import { openVolumes } from "./volumes.ts";

export interface CloudOptions {
  /** Where volumes, instances, commands, closed tags and `log.jsonl` live; made when missing, found again after a restart. */
  readonly dir: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** Kills the process behind a sandbox id at once, as a crash would. */
  killCaller(sandboxId: string): void;
  /** Told of every process that the cloud starts, so that somebody else can end what a killed stack left. Default: nobody is. */
  started?(pid: number, what: string): void;
}

export interface LocalCloud {
  /** Where it keeps everything. */
  readonly dir: string;
  readonly url: string;
  readonly faults: CloudFaults;
  readonly log: CloudLog;
  /** Drops every connection, ends every instance and stops. Operations that are still waiting are not done. */
  close(): Promise<void>;
}

/**
 * A provider of volumes and instances for one machine, on a loopback port. Idempotent by key, deletes by tag, keeps everything
 * in `dir`. Callers that go through `/as/<sandbox id>/…` can be killed by a fault.
 */
export async function startCloud({ dir, port, killCaller, started = () => {} }: CloudOptions): Promise<LocalCloud> {
  mkdirSync(dir, { recursive: true });
  const stop = new AbortController();
  const volumes = openVolumes(dir);
  const commands = openCommands(dir);
  const instances = openInstances({ dir, commands, started });
  const faults = createFaults();
  const log = openLog(join(dir, "log.jsonl"));
  const operations = createOperations({ volumes, instances, commands, faults, log, stopped: stop.signal });
  const parts: RouteParts = { volumes, instances, commands, operations, faults, log };

  const server = createServer((request, response) => {
    serve(request, response, parts, killCaller).catch((error: unknown) => {
      if (stop.signal.aborted) return;
      send(response, failure(500, "CLOUD_BUG", error instanceof Error ? (error.stack ?? error.message) : `${error}`));
    });
  });
  await listen(server, port);
  return {
    dir,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    faults,
    log,
    async close() {
      stop.abort();
      await operations.idle();
      await instances.close();
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  parts: RouteParts,
  killCaller: (sandboxId: string) => void,
): Promise<void> {
  const { sandbox, path } = splitSandbox(request.url ?? "/");
  const body = await text(request);
  const answer = await route({ method: request.method ?? "GET", url: urlOf({ url: path }), body }, parts);
  if (answer !== "killCaller") return send(response, answer);
  if (sandbox !== undefined) killCaller(sandbox);
  request.socket.destroy();
}

/** `/as/<sandbox id>/volumes?x` is `/volumes?x`, called by that sandbox. */
function splitSandbox(target: string): { readonly sandbox?: string; readonly path: string } {
  const match = /^\/as\/([^/?]+)(\/.*)$/.exec(target);
  const [, sandbox, path] = match ?? [];
  return sandbox === undefined || path === undefined ? { path: target } : { sandbox: decoded(sandbox), path };
}

async function text(request: IncomingMessage): Promise<string> {
  request.setEncoding("utf8");
  let body = "";
  for await (const chunk of request) body += chunk;
  return body;
}

function send(response: ServerResponse, { status, body }: Exclude<CloudAnswer, "killCaller">): void {
  if (response.destroyed) return;
  response.writeHead(status, body === undefined ? {} : { "content-type": "application/json" });
  response.end(body === undefined ? undefined : JSON.stringify(body));
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", () => resolve());
  });
}
