/* The control server: makes everything that can go wrong go wrong, on request, from outside. */

import type { IncomingMessage, ServerResponse } from "node:http";
import type { FaultSpec, Faults } from "./data-api/index.ts";
import { LocalError } from "./errors.ts";
import { answering, decoded, type Listening, listen, readBody } from "./http.ts";
import type { Access } from "./iam/access.ts";
import { describeAccess } from "./iam/describe-access.ts";
import type { LambdaFunction } from "./lambda/lambda-function.ts";
import type { CrashOptions } from "./postgres.ts";
import { parseQueueFault, type QueueFaults } from "./sqs/faults.ts";

/** What can be controlled. */
export interface Controlled {
  readonly functions: ReadonlyMap<string, LambdaFunction>;
  readonly queues: readonly string[];
  readonly queueFaults: QueueFaults;
  readonly dataApi: { readonly faults: Faults; stats(): unknown };
  readonly access: Access;
  /** The six characters behind the names of secrets, which differ from stack to stack. */
  readonly secretSuffix: string;
  /** Kills the database and starts it again; answers its new process. */
  crashDatabase(options: CrashOptions): Promise<number>;
  /** Where the local cloud answers; `/cloud/...` is passed on to it. */
  readonly cloudUrl: string;
}

interface Call {
  readonly method: string;
  readonly name: string;
  readonly action: string;
  /** The JSON body; undefined without one. */
  json(): Promise<unknown>;
}

interface Answer {
  readonly status: number;
  readonly body?: unknown;
}

type Route = (controlled: Controlled, call: Call) => Promise<Answer> | Answer;

const ok = (body: unknown, status = 200): Answer => ({ status, body });
const DONE: Answer = { status: 204 };

const ROUTES: readonly (readonly [string, RegExp, Route])[] = [
  ["GET", /^\/functions$/, ({ functions }) => ok([...functions.values()].map(describe))],
  ["POST", /^\/functions\/(?<name>[^/]+)\/(?<action>stop|start|freeze|kill)$/, changeFunction],
  ["POST", /^\/queues\/(?<name>[^/]+)\/faults$/, addQueueFault],
  ["GET", /^\/queues\/(?<name>[^/]+)\/faults$/, (c, { name }) => ok(c.queueFaults.list(queue(c, name)))],
  ["DELETE", /^\/queues\/(?<name>[^/]+)\/faults$/, clearQueueFaults],
  ["POST", /^\/data-api\/faults$/, async (c, call) => ok(c.dataApi.faults.add((await call.json()) as FaultSpec), 201)],
  ["GET", /^\/data-api\/faults$/, (c) => ok(c.dataApi.faults.list())],
  ["DELETE", /^\/data-api\/faults$/, clearDataApiFaults],
  ["GET", /^\/data-api\/stats$/, (c) => ok(c.dataApi.stats())],
  ["GET", /^\/access$/, (c) => ok(describeAccess(c.access, c.secretSuffix))],
  ["POST", /^\/database\/kill$/, killDatabase],
  ["POST", /^\/cloud\/(?<name>faults)$/, cloud],
  ["GET", /^\/cloud\/(?<name>faults|log)$/, cloud],
  ["DELETE", /^\/cloud\/(?<name>faults)$/, cloud],
];

/** Serves the control interface on a loopback port. */
export function serveControl(controlled: Controlled, port: number): Promise<Listening> {
  return listen(
    answering((incoming, outgoing) => handle(controlled, incoming, outgoing)),
    {
      port,
      what: "the control server",
      option: "--port",
    },
  );
}

async function handle(controlled: Controlled, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const { status, body } = await route(controlled, incoming).catch(failed);
  if (body === undefined) outgoing.writeHead(status).end();
  else outgoing.writeHead(status, { "content-type": "application/json" }).end(`${JSON.stringify(body)}\n`);
}

async function route(controlled: Controlled, incoming: IncomingMessage): Promise<Answer> {
  const path = (incoming.url ?? "/").split("?")[0]!;
  const method = incoming.method ?? "GET";
  const here = ROUTES.filter(([, pattern]) => pattern.test(path));
  const found = here.find(([each]) => each === method);
  if (!found) {
    if (here.length === 0) return problem(404, "NOT_FOUND", `There is nothing at ${path}.`);
    return problem(405, "METHOD_NOT_ALLOWED", `${path} takes ${here.map(([each]) => each).join(", ")}, not ${method}.`);
  }
  const [, pattern, run] = found;
  const { name = "", action = "" } = pattern.exec(path)?.groups ?? {};
  return run(controlled, { method, name: decoded(name), action, json: () => parse(incoming) });
}

async function parse(incoming: IncomingMessage): Promise<unknown> {
  const text = await readBody(incoming);
  try {
    const value: unknown = JSON.parse(text);
    if (value !== null && typeof value === "object") return value;
  } catch {
    // said below
  }
  throw new LocalError("BAD_REQUEST", { field: "body", problem: "must be a JSON object" });
}

function failed(error: unknown): Answer {
  if (!(error instanceof LocalError)) return problem(500, "INTERNAL", String(error));
  return problem(error.code === "NOT_FOUND" ? 404 : 400, error.code, error.message);
}

function problem(status: number, code: string, message: string): Answer {
  return { status, body: { code, message } };
}

function describe(fn: LambdaFunction): Record<string, unknown> {
  return { name: fn.spec.name, state: fn.state, pids: fn.pids, inFlight: fn.inFlight };
}

function changeFunction({ functions }: Controlled, { name, action }: Call): Answer {
  const fn = functions.get(name);
  if (!fn) throw new LocalError("NOT_FOUND", { what: "function", name, known: [...functions.keys()].join(", ") });
  const pids = fn.pids;
  switch (action) {
    case "stop":
      fn.stop();
      return ok({ ...describe(fn), pids });
    case "start":
      fn.start();
      return ok(describe(fn));
    case "freeze":
      return ok({ ...describe(fn), pids: fn.freeze(), state: fn.state });
    default:
      return ok({ ...describe(fn), pids: fn.kill() });
  }
}

/** Answers when it accepts connections again. */
async function killDatabase({ crashDatabase }: Controlled, call: Call): Promise<Answer> {
  const { how = "kill", seconds = 0 } = (await call.json()) as Record<string, unknown>;
  const bad = (field: string, problem: string) => new LocalError("BAD_REQUEST", { field, problem });
  if (how !== "kill" && how !== "immediate") throw bad("how", "must be kill or immediate");
  if (!(typeof seconds === "number" && seconds >= 0 && seconds <= 600)) throw bad("seconds", "must be from 0 to 600");
  const from = performance.now();
  const pid = await crashDatabase({ how, awaySeconds: seconds });
  return ok({ pid, awaySeconds: Math.round(performance.now() - from) / 1000 });
}

function queue({ queues }: Controlled, name: string): string {
  if (queues.includes(name)) return name;
  throw new LocalError("NOT_FOUND", { what: "queue", name, known: queues.join(", ") });
}

async function addQueueFault(controlled: Controlled, call: Call): Promise<Answer> {
  const name = queue(controlled, call.name);
  const fault = parseQueueFault(await call.json());
  controlled.queueFaults.add(name, fault);
  return ok({ ...fault, left: fault.count }, 201);
}

function clearQueueFaults(controlled: Controlled, { name }: Call): Answer {
  controlled.queueFaults.clear(queue(controlled, name));
  return DONE;
}

function clearDataApiFaults({ dataApi }: Controlled): Answer {
  dataApi.faults.clear();
  return DONE;
}

async function cloud({ cloudUrl }: Controlled, call: Call): Promise<Answer> {
  const body = call.method === "POST" ? JSON.stringify(await call.json()) : undefined;
  const answer = await fetch(`${cloudUrl}/${call.name}`, {
    method: call.method,
    ...(body === undefined ? {} : { body }),
  });
  const text = await answer.text();
  return { status: answer.status, ...(text === "" ? {} : { body: JSON.parse(text) as unknown }) };
}
