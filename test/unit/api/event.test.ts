import { Hono } from "hono";
import type { LambdaEvent } from "hono/aws-lambda";
import { describe, expect, test, vi } from "vitest";
import { answerEvent } from "../../../functions/api/event.ts";

const app = new Hono();
app.get("/volumes", (c) => c.json({ items: [] }));
app.post("/volumes", async (c) => c.json(await c.req.json(), 201));

const event = (method: string, more: object = {}) =>
  ({
    version: "2.0",
    rawPath: "/volumes",
    rawQueryString: "",
    headers: {},
    requestContext: { domainName: "local", http: { method, path: "/volumes" } },
    isBase64Encoded: false,
    ...more,
  }) as unknown as LambdaEvent;

describe("an event of a function URL", () => {
  test("is answered by the routes", async () => {
    expect(await answerEvent(app, event("POST", { body: '{"a":1}' }))).toMatchObject({
      statusCode: 201,
      body: '{"a":1}',
    });
  });

  test.each(["GET", "HEAD"])("may have a body where it means nothing: %s", async (method) => {
    expect(await answerEvent(app, event(method, { body: "{" }))).toMatchObject({ statusCode: 200 });
  });

  test.each(["TRACE", "CONNECT", "TRACK"])(
    "with a method that nobody may send is refused with a code: %s",
    async (method) => {
      const { statusCode, headers, body } = await answerEvent(app, event(method));
      expect({ statusCode, type: headers?.["content-type"] }).toEqual({
        statusCode: 400,
        type: "application/problem+json",
      });
      expect(JSON.parse(body)).toMatchObject({
        status: 400,
        code: "REQUEST_MALFORMED",
        detail: expect.stringMatching(/./),
      });
    },
  );

  test("that no request can be made of is refused with a code", async () => {
    const nowhere = { domainName: "a b", http: { method: "POST", path: "/" } };
    vi.spyOn(console, "error").mockReturnValueOnce(); // of Hono's adapter
    const { statusCode, body } = await answerEvent(app, event("POST", { requestContext: nowhere }));
    expect({ statusCode, code: JSON.parse(body).code }).toEqual({ statusCode: 400, code: "REQUEST_MALFORMED" });
  });
});
