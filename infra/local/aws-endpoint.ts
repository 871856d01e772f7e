/* All AWS services behind one loopback port: a call is routed by the service that its signature names. */

import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { type AwsAnswer, awsError, awsJson } from "./aws-answer.ts";
import { answering, readBody } from "./http.ts";
import type { Need } from "./iam/policies.ts";
import type { RoleCaller } from "./iam/principals.ts";
import { deniedAnswer, type Refusal } from "./iam/refusals.ts";
import { invokedFunction, invokedQualifier } from "./lambda/invoke-api.ts";
import { ACCOUNT_ID, REGION } from "./resource-types.ts";
import { readQuery, writeQuery } from "./sqs/query-protocol.ts";
import type { Json, JsonObject } from "./template.ts";

/** What stands behind the endpoint. */
export interface AwsServices {
  dataApi(path: string, body: string): Promise<AwsAnswer | "lost">;
  sqs(operation: string, body: JsonObject, signal: AbortSignal): Promise<AwsAnswer>;
  secrets(operation: string, body: JsonObject): AwsAnswer;
  invoke(functionName: string, invocationType: string | undefined, body: string): Promise<AwsAnswer>;
  /** Who signed a call: a function. Anybody else is the developer, who may do everything. */
  caller(accessKeyId: string): RoleCaller | undefined;
  /** Judges a call of a function; answers the refusal when it is refused. */
  check(caller: RoleCaller, need: Need): Refusal | undefined;
  /** The whole ARN of a secret, by its name or ARN. */
  secretArn(id: string): string | undefined;
}

interface Call {
  readonly path: string;
  readonly body: string;
  readonly incoming: IncomingMessage;
  readonly signal: AbortSignal;
  /** The operation of `x-amz-target`. */
  readonly target: string;
}

interface Service {
  /** What the caller's role has to allow. */
  needs(call: Call, services: AwsServices): readonly Need[];
  answer(services: AwsServices, call: Call): Promise<AwsAnswer | "lost">;
}

const arn = (service: string, rest: string) => `arn:aws:${service}:${REGION}:${ACCOUNT_ID}:${rest}`;

function json(body: string): JsonObject {
  try {
    const value = JSON.parse(body || "{}");
    return value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
  } catch {
    return {};
  }
}

const secretOf = (services: AwsServices, id: Json | undefined) => services.secretArn(String(id)) ?? String(id);

const DATA_API_OPERATIONS: Readonly<Record<string, string>> = {
  "/Execute": "ExecuteStatement",
  "/BatchExecute": "BatchExecuteStatement",
  "/BeginTransaction": "BeginTransaction",
  "/CommitTransaction": "CommitTransaction",
  "/RollbackTransaction": "RollbackTransaction",
};

const SERVICES: Readonly<Record<string, Service>> = {
  "rds-data": {
    needs({ path, body }, services) {
      const { resourceArn, secretArn } = json(body);
      return [
        { action: `rds-data:${DATA_API_OPERATIONS[path] ?? path}`, resource: String(resourceArn) },
        // the Data API reads it as its caller
        { action: "secretsmanager:GetSecretValue", resource: secretOf(services, secretArn) },
      ];
    },
    answer: (services, { path, body }) => services.dataApi(path, body),
  },
  sqs: {
    needs({ target, body }) {
      const { QueueUrl, QueueName } = json(body);
      const name = String(QueueUrl ?? QueueName ?? "*")
        .split("/")
        .at(-1)!;
      return [{ action: `sqs:${target.replace(/Batch$/, "")}`, resource: arn("sqs", name) }];
    },
    answer: (services, { target, body, signal }) => services.sqs(target, json(body), signal),
  },
  secretsmanager: {
    needs: ({ target, body }, services) => [
      { action: `secretsmanager:${target}`, resource: secretOf(services, json(body)["SecretId"]) },
    ],
    answer: async (services, { target, body }) => services.secrets(target, json(body)),
  },
  lambda: {
    needs({ path, incoming }) {
      const name = invokedFunction(path) ?? "*";
      const qualifier = invokedQualifier(incoming.url ?? "");
      const resource = arn("lambda", `function:${name}${qualifier === undefined ? "" : `:${qualifier}`}`);
      return [{ action: "lambda:InvokeFunction", resource }];
    },
    async answer(services, { path, body, incoming }) {
      const name = invokedFunction(path);
      if (incoming.method !== "POST" || name === undefined) {
        return awsError(
          404,
          "UnknownOperationException",
          `The local Lambda service has no ${incoming.method} ${path}.`,
        );
      }
      return services.invoke(name, incoming.headers["x-amz-invocation-type"] as string | undefined, body);
    },
  },
  sts: {
    needs: () => [], // nobody needs leave to ask who he is
    answer: async () => callerIdentity(),
  },
};

/** The listener for the one port. */
export function awsListener(services: AwsServices): RequestListener {
  return answering((incoming, outgoing) => handle(services, incoming, outgoing));
}

async function handle(services: AwsServices, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const gone = new AbortController();
  outgoing.once("close", () => gone.abort());
  try {
    const answer = await route(services, incoming, gone.signal);
    if (answer === "lost") {
      incoming.socket.destroy();
      return;
    }
    const requestId = { "x-amzn-requestid": crypto.randomUUID() };
    outgoing.writeHead(answer.status, { ...requestId, ...answer.headers }).end(answer.body);
  } catch (error) {
    const { headers, body } = awsError(500, "InternalFailure", `The local stack failed: ${String(error)}`);
    if (!outgoing.headersSent) outgoing.writeHead(500, headers).end(body);
  }
}

async function route(
  services: AwsServices,
  incoming: IncomingMessage,
  signal: AbortSignal,
): Promise<AwsAnswer | "lost"> {
  const body = await readBody(incoming);
  const [, accessKeyId, name] =
    /Credential=([^/,\s]+)\/\d{8}\/[^/]+\/([^/]+)\/aws4_request/.exec(incoming.headers.authorization ?? "") ?? [];
  if (accessKeyId === undefined || name === undefined) {
    const message =
      "Sign the request (AWS Signature Version 4): the service in the signature says where it goes. Any keys will do.";
    return awsError(403, "MissingAuthenticationToken", message);
  }
  const service = Object.hasOwn(SERVICES, name) ? SERVICES[name] : undefined;
  if (!service) {
    const known = Object.keys(SERVICES).join(", ");
    return awsError(501, "UnknownService", `The local stack has no service named ${name}; it has ${known}.`);
  }
  const target = String(incoming.headers["x-amz-target"] ?? "")
    .split(".")
    .at(-1)!;
  const path = (incoming.url ?? "/").split("?")[0]!;
  const query = name === "sqs" && target === "" ? readQuery(body) : undefined;
  const call: Call = { path, body: query?.body ?? body, incoming, signal, target: query?.operation ?? target };
  const refusal = refusalOf(services, accessKeyId, service, call);
  const answer = refusal ? deniedAnswer(name, refusal) : await service.answer(services, call);
  return query === undefined || answer === "lost" ? answer : writeQuery(query.operation, answer);
}

function refusalOf(services: AwsServices, accessKeyId: string, service: Service, call: Call): Refusal | undefined {
  const caller = services.caller(accessKeyId);
  if (!caller) return undefined;
  for (const need of service.needs(call, services)) {
    const refusal = services.check(caller, need);
    if (refusal) return refusal;
  }
  return undefined;
}

function callerIdentity(): AwsAnswer {
  const user = `<Arn>arn:aws:iam::${ACCOUNT_ID}:root</Arn><UserId>${ACCOUNT_ID}</UserId><Account>${ACCOUNT_ID}</Account>`;
  const xmlns = "https://sts.amazonaws.com/doc/2011-06-15/";
  const result = `<GetCallerIdentityResult>${user}</GetCallerIdentityResult>`;
  const body = `<GetCallerIdentityResponse xmlns="${xmlns}">${result}</GetCallerIdentityResponse>`;
  return { ...awsJson({}), headers: { "content-type": "text/xml" }, body };
}
