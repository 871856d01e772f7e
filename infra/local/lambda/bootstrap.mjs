// Runs a function's bundle: the other end of the Lambda Runtime API, in a process of its own.
// It knows nothing of the local stack but what a real sandbox would know, all from its environment.

import { existsSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const env = process.env;
const [host, port] = env.AWS_LAMBDA_RUNTIME_API.split(":");
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
let requestId;

/** One Runtime API call; the sandbox has no purpose once its runtime is gone. */
function call(method, path, body) {
  return new Promise((resolve) => {
    const sent = request({ host, port, agent, method, path: `/2018-06-01/runtime${path}` }, (answer) => {
      const chunks = [];
      answer.on("data", (chunk) => chunks.push(chunk));
      answer.on("end", () => resolve({ headers: answer.headers, body: Buffer.concat(chunks).toString() }));
      answer.on("error", () => process.exit(1));
    });
    sent.on("error", () => process.exit(1));
    sent.end(body);
  });
}

function describe(error) {
  if (!(error instanceof Error)) return { errorType: typeof error, errorMessage: String(error), trace: [] };
  return { errorType: error.name, errorMessage: error.message, trace: (error.stack ?? "").split("\n") };
}

async function report(path, error) {
  const description = describe(error);
  console.error(
    JSON.stringify({ timestamp: new Date().toISOString(), level: "ERROR", requestId, message: description }),
  );
  await call("POST", path, JSON.stringify(description));
}

async function die(error) {
  await report(requestId ? `/invocation/${requestId}/error` : "/init/error", error);
  process.exit(128);
}

async function load() {
  const at = env._HANDLER.lastIndexOf(".");
  const [module, name] = [env._HANDLER.slice(0, at), env._HANDLER.slice(at + 1)];
  const stem = join(env.LAMBDA_TASK_ROOT, module);
  const file = [".mjs", ".js", ".cjs"].map((end) => stem + end).find((each) => existsSync(each));
  if (!file) throw new Error(`Cannot find module '${module}' in ${env.LAMBDA_TASK_ROOT}`);
  const loaded = await import(pathToFileURL(file).href);
  const handler = loaded[name] ?? loaded.default?.[name];
  if (typeof handler !== "function") throw new Error(`${env._HANDLER} is undefined or not exported`);
  return handler;
}

function contextOf(headers) {
  const deadline = Number(headers["lambda-runtime-deadline-ms"]);
  return {
    functionName: env.AWS_LAMBDA_FUNCTION_NAME,
    functionVersion: env.AWS_LAMBDA_FUNCTION_VERSION,
    memoryLimitInMB: env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE,
    logGroupName: env.AWS_LAMBDA_LOG_GROUP_NAME,
    logStreamName: env.AWS_LAMBDA_LOG_STREAM_NAME,
    clientContext: undefined,
    identity: undefined,
    invokedFunctionArn: headers["lambda-runtime-invoked-function-arn"],
    awsRequestId: headers["lambda-runtime-aws-request-id"],
    getRemainingTimeInMillis: () => deadline - Date.now(),
  };
}

process.on("uncaughtException", die);
process.on("unhandledRejection", die);

const handler = await load();
for (;;) {
  const next = await call("GET", "/invocation/next");
  const context = contextOf(next.headers);
  requestId = context.awsRequestId;
  try {
    const result = await handler(JSON.parse(next.body), context);
    await call("POST", `/invocation/${requestId}/response`, JSON.stringify(result) ?? "null");
  } catch (error) {
    await report(`/invocation/${requestId}/error`, error);
  }
  requestId = undefined;
}
