/* Sends the random requests, all routes by turns. */

import { setTimeout as wait } from "node:timers/promises";
import { type Random, seededRandom } from "../stress/random.ts";
import type { LocalStack } from "../support/stack.ts";
import type { Known } from "./known.ts";
import { type Made, note } from "./made.ts";
import { judge, type Outcomes } from "./outcomes.ts";
import { type FuzzRequest, type FuzzRoute, fuzzRoutes, strangeRoute } from "./requests.ts";
import { sample } from "./values.ts";
import { openWire, type Wire, type WireAnswer } from "./wire.ts";

export interface SendParts {
  readonly stack: LocalStack;
  readonly seed: number;
  /** To each queue and route. */
  readonly count: number;
  readonly known: Known;
  readonly made: Made;
  readonly outcomes: Outcomes;
  readonly signal: AbortSignal;
}

/** Of Lambda's ten places for the API the load takes up to six. */
const CONNECTIONS = 4;
/** Sent to one route before the next has its turn. */
export const TURN = 100;
/** A throttled request is sent again, as clients of AWS do. */
const THROTTLED_MS = 100;
const MOST_WRONG = 50;

/** Seeds differ by target and turn, and are the same in every run. */
export const seedOf = (seed: number, target: number, turn: number): number =>
  (seed + target * 10_007 + turn * 1_000_003) | 0;

/** Sends `count` to each route; resolves when all are answered. */
export async function sendRequests(parts: SendParts): Promise<void> {
  const { stack, seed, count, known, signal } = parts;
  const routes = [...fuzzRoutes(), strangeRoute];
  const wire = openWire(stack.local.apiUrl, CONNECTIONS);
  const random = seededRandom(seed);
  try {
    for (let done = 0; done < count; done += TURN) {
      for (const [n, route] of routes.entries()) {
        if (signal.aborted) return;
        await known.refresh();
        const turn = sample(route.request, Math.min(TURN, count - done), seedOf(seed, n, done));
        await Promise.all(
          Array.from({ length: CONNECTIONS }, async (_, own) => {
            for (let at = own; at < turn.length && !signal.aborted; at += CONNECTIONS)
              await sendOne(parts, wire, route, turn[at]!, random);
          }),
        );
      }
    }
  } finally {
    wire.close();
  }
}

async function sendOne(
  parts: SendParts,
  wire: Wire,
  route: FuzzRoute,
  request: FuzzRequest,
  random: Random,
): Promise<void> {
  const { known, made, outcomes } = parts;
  const target = outcomes.target(route.name);
  const body = request.body === undefined ? undefined : known.fill(request.body, random);
  const sent = { ...request, headers: latin(request.headers), path: onOneLine(known.fill(request.path, random)), body };
  const answer = await unthrottled(wire, sent, parts.signal);
  const wrong = judge(target, answer);
  if (wrong !== undefined && outcomes.wrong.length < MOST_WRONG)
    outcomes.wrong.push(`${request.method} ${sent.path.slice(0, 300)} ${body?.slice(0, 300) ?? ""}: ${wrong}`);
  if (answer.status >= 300 || answer.status === 0) return;
  note(made, route.name, answer.text);
  // the load must not wait for somebody to notice
  if (route.name === "POST /pipelines/{name}/pause")
    await unthrottled(
      wire,
      { ...sent, path: sent.path.replace(/pause(\?.*)?$/, "resume"), body: undefined },
      parts.signal,
    );
}

async function unthrottled(wire: Wire, request: FuzzRequest, signal: AbortSignal): Promise<WireAnswer> {
  for (;;) {
    const answer = await wire.send(request);
    if (answer.status !== 429 || signal.aborted) return answer;
    await wait(THROTTLED_MS);
  }
}

/** What stands in the first line of a request; anything else would be another request. */
const onOneLine = (path: string) => path.replaceAll(/[^\x21-\x7e]/g, (c) => encodeURIComponent(c.toWellFormed()));
const latin = (headers: Readonly<Record<string, string>>) =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, value.replaceAll(/[^\x20-\x7e\xa0-\xff]/g, "?")]),
  );
