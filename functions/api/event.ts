import type { Hono } from "hono";
import { handle, type LambdaEvent } from "hono/aws-lambda";
import { ApiProblem, problemResponse } from "./problems.ts";

/** No `Request` can have them: https://fetch.spec.whatwg.org/#forbidden-method */
const FORBIDDEN = /^(CONNECT|TRACE|TRACK)$/i;

/** Answers the event of a function URL. What cannot be a request at all is a problem, too. */
export async function answerEvent(app: Hono, event: LambdaEvent) {
  const method = "http" in event.requestContext ? event.requestContext.http.method : "";
  // Hono's adapter would say so in words of its own, and write the error to the log
  if (FORBIDDEN.test(method)) return malformed();
  const result = await handle(app)(/^(GET|HEAD)$/i.test(method) ? withoutBody(event) : event);
  // every problem of the routes is problem+json: this is the adapter, which could not make a request of the event
  const isProblem = String(result.headers?.["content-type"]).startsWith("application/problem+json");
  return result.statusCode === 400 && !isProblem ? malformed() : result;
}

/** The body of a GET means nothing (RFC 9110, 9.3.1), and a `Request` that has one cannot be made. */
const withoutBody = (event: LambdaEvent) => ({ ...event, body: null }) as LambdaEvent;

async function malformed() {
  const problem = problemResponse(new ApiProblem("REQUEST_MALFORMED"), () => {});
  const headers: Record<string, string> = Object.fromEntries(problem.headers);
  return { statusCode: problem.status, headers, body: await problem.text(), isBase64Encoded: false };
}
