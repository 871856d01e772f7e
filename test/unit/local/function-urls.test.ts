import { once } from "node:events";
import { request } from "node:http";
import { connect } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { serveFunctionUrl } from "../../../infra/local/function-urls.ts";
import type { Listening } from "../../../infra/local/http.ts";
import type { LambdaFunction } from "../../../infra/local/lambda/lambda-function.ts";

/* Whatever a stranger sends, the function sees an event, or the stranger gets 4xx; and the server goes on. */

// biome-ignore lint/suspicious/noExplicitAny: events of all kinds
let seen: any[];
let served: Listening;
beforeEach(async () => {
  seen = [];
  const invoke = async (payload: string) => {
    seen.push(JSON.parse(payload));
    return { ok: true, payload: JSON.stringify({ statusCode: 204 }) };
  };
  served = await serveFunctionUrl({ invoke } as unknown as LambdaFunction, 0);
});
afterEach(() => served.close());

async function send(path: string, { method = "GET", headers = {}, body = Buffer.alloc(0) } = {}): Promise<number> {
  const sent = request({ host: "127.0.0.1", port: served.port, path, method, headers });
  sent.end(body);
  const [answer] = await once(sent, "response");
  answer.resume();
  return answer.statusCode;
}

test.each(["//", "///x?y", "/%zz", "*"])("a path that is no URL reaches the function: %s", async (path) => {
  expect(await send(path)).toBe(204);
  expect(seen[0].rawPath).toBe(path === "*" ? "/" : path.split("?")[0]);
});

test("a caller that goes away in the middle of its body harms nobody", async () => {
  const socket = connect(served.port, "127.0.0.1");
  const gone = new Promise((resolve) => served.server.once("connection", (other) => other.once("close", resolve)));
  socket.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{");
  await once(served.server, "request");
  socket.destroy();
  await gone;
  expect(await send("/")).toBe(204);
  expect(seen.length).toBe(1);
});

test("bytes that are no text arrive as they were sent", async () => {
  const body = Buffer.from([0, 255, 254, 128]);
  expect(await send("/", { method: "POST", body, headers: { "content-type": "application/octet-stream" } })).toBe(204);
  expect(Buffer.from(seen[0].body, "base64")).toEqual(body);
});

test("a parameter may have any name", async () => {
  await send("/?__proto__=a&__proto__=b&constructor=c");
  expect(Object.entries(seen[0].queryStringParameters)).toEqual([
    ["__proto__", "a,b"],
    ["constructor", "c"],
  ]);
});

test("the host is the function's own, whatever the caller says", async () => {
  await send("/", { headers: { host: "a b:99999" } });
  expect(seen[0].requestContext.domainName).toBe(`127.0.0.1:${served.port}`);
});

test("an expectation that nobody knows is the function's to judge", async () => {
  expect(await send("/", { headers: { expect: "wonders" } })).toBe(204);
});

test("a kept connection stays open for longer than clients use to keep it", async () => {
  const sent = request({ host: "127.0.0.1", port: served.port, headers: { connection: "keep-alive" } }).end();
  const [answer] = await once(sent, "response");
  answer.resume();
  expect(answer.headers["keep-alive"]).toBe("timeout=75");
});

test("a body beyond Lambda's limit is refused", async () => {
  expect(await send("/", { method: "POST", body: Buffer.alloc(5 * 1024 * 1024, 0xff) })).toBe(413);
  expect(seen).toEqual([]);
});
