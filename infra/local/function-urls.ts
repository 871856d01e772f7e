/* Function URLs: HTTP on loopback, turned into events and back. Calls need no signature here. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { answering, type Listening, listen, readBytes, urlOf } from "./http.ts";
import type { InvokeResult, LambdaFunction } from "./lambda/lambda-function.ts";

interface UrlAnswer {
  readonly statusCode?: number;
  readonly headers?: Readonly<Record<string, string | number | boolean>>;
  readonly cookies?: readonly string[];
  readonly body?: string;
  readonly isBase64Encoded?: boolean;
}

const TEXT = /^(text\/|application\/(json|.*\+json|xml|.*\+xml|javascript|x-www-form-urlencoded))/;

const JSON_TYPE = { "content-type": "application/json" };
/** AWS Lambda: the largest payload of a call that is answered. */
const PAYLOAD_LIMIT_BYTES = 6 * 1024 * 1024;

/** Serves a function's URL; port 0 is any free one. */
export function serveFunctionUrl(fn: LambdaFunction, port: number): Promise<Listening> {
  return listen(
    answering((incoming, outgoing) => handle(fn, incoming, outgoing)),
    {
      port,
      what: "the API",
      option: "--api-port",
    },
  );
}

async function handle(fn: LambdaFunction, incoming: IncomingMessage, outgoing: ServerResponse) {
  const body = await readBytes(incoming);
  const event = JSON.stringify(eventOf(incoming, body));
  if (Buffer.byteLength(event) > PAYLOAD_LIMIT_BYTES)
    outgoing.writeHead(413, JSON_TYPE).end('{"message":"Request Too Long"}');
  else write(outgoing, await fn.invoke(event));
}

/** The event, payload version 2.0. */
function eventOf(incoming: IncomingMessage, body: Buffer): Record<string, unknown> {
  const url = urlOf(incoming);
  const headers = Object.fromEntries(
    Object.entries(incoming.headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(",") : value]),
  );
  const query: Record<string, string> = Object.create(null);
  for (const [name, value] of url.searchParams) query[name] = name in query ? `${query[name]},${value}` : value;
  const { cookie, ...others } = headers;
  const isText = body.length === 0 || TEXT.test(headers["content-type"] ?? "");
  const now = new Date();
  return {
    version: "2.0",
    routeKey: "$default",
    rawPath: url.pathname,
    rawQueryString: url.search.slice(1),
    ...(cookie === undefined ? {} : { cookies: cookie.split(/; */) }),
    headers: { ...others, "x-forwarded-for": "127.0.0.1", "x-forwarded-proto": "http" },
    ...(url.search === "" ? {} : { queryStringParameters: query }),
    requestContext: {
      accountId: "anonymous",
      apiId: "local",
      // on AWS a host is always the function's own: nobody else's requests get here
      domainName: `127.0.0.1:${incoming.socket.localPort}`,
      domainPrefix: "local",
      http: {
        method: incoming.method,
        path: url.pathname,
        protocol: `HTTP/${incoming.httpVersion}`,
        sourceIp: "127.0.0.1",
        userAgent: headers["user-agent"] ?? "",
      },
      requestId: crypto.randomUUID(),
      routeKey: "$default",
      stage: "$default",
      time: now.toUTCString(),
      timeEpoch: now.getTime(),
    },
    ...(body.length === 0 ? {} : { body: body.toString(isText ? "utf8" : "base64") }),
    isBase64Encoded: !isText,
  };
}

function write(outgoing: ServerResponse, result: InvokeResult): void {
  if (result === "throttled") {
    outgoing.writeHead(429, JSON_TYPE).end('{"message":"Too Many Requests"}');
    return;
  }
  if (!result.ok) {
    outgoing.writeHead(502, JSON_TYPE).end('{"message":"Internal Server Error"}');
    return;
  }
  const answer = JSON.parse(result.payload) as UrlAnswer | null;
  if (answer === null || typeof answer !== "object" || answer.statusCode === undefined) {
    outgoing.writeHead(200, JSON_TYPE).end(typeof answer === "string" ? answer : result.payload);
    return;
  }
  const headers: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(answer.headers ?? {})) headers[name.toLowerCase()] = String(value);
  headers["content-type"] ??= "application/json";
  if (answer.cookies) headers["set-cookie"] = [...answer.cookies];
  outgoing.writeHead(answer.statusCode, headers);
  outgoing.end(Buffer.from(answer.body ?? "", answer.isBase64Encoded ? "base64" : "utf8"));
}
