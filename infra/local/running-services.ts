/* The services of a stack: Data API, queues, cloud, functions, control server and function URLs. */

import { startCloud } from "./cloud/index.ts";
import { type Compute, createCompute } from "./compute.ts";
import { serveControl } from "./control.ts";
import { createDataApi, type DataApi } from "./data-api/index.ts";
import type { Foundation } from "./foundation.ts";
import { serveFunctionUrl } from "./function-urls.ts";
import type { LambdaFunction } from "./lambda/lambda-function.ts";
import type { CrashOptions } from "./postgres.ts";
import { type SqsFront, startSqs } from "./sqs/front.ts";
import type { StackOptions } from "./stack.ts";
import type { StateFolder } from "./state.ts";

export interface RunningServices {
  readonly sqs: SqsFront;
  readonly compute: Compute;
  /** The functions of the app, without those of CDK's own custom resources. */
  readonly named: readonly LambdaFunction[];
  readonly cloudUrl: string;
  readonly controlUrl: string;
  readonly apiUrl: string;
}

/** Starts them, in the order in which they need each other. */
export async function startServices(
  foundation: Foundation,
  options: StackOptions,
  state: StateFolder,
  cleanUp: AsyncDisposableStack,
): Promise<RunningServices> {
  const { plan, services, secrets, access } = foundation;
  const dataApi = openDataApi(foundation, (text) => options.progress.note(text));
  cleanUp.defer(() => dataApi.close());
  const sqs = await startSqs({ endpoint: () => foundation.awsEndpoint, logFile: state.path("sqs.jsonl") });
  cleanUp.defer(() => sqs.close());
  for (const { name, attributes } of plan.queues) await sqs.createQueue(name, attributes);

  const killCaller = (sandboxId: string) => compute.killSandbox(sandboxId);
  const cloud = await startCloud({
    dir: state.path("cloud"),
    port: 0,
    killCaller,
    started: (pid, what) => state.processes.add(pid, what),
  });
  cleanUp.defer(() => cloud.close());
  const { functions: plans, asyncSettings } = plan;
  const compute = createCompute({ plans, asyncSettings, state, access, cloudUrl: cloud.url });
  cleanUp.defer(() => compute.close());
  services.open({ dataApi, sqs, secrets, compute, access });

  const named = plans.filter(({ isNamed }) => isNamed).map(({ spec }) => compute.find(spec.name));
  const controlled = {
    functions: new Map(named.map((fn) => [fn.spec.name, fn])),
    queues: plan.queues.map(({ name }) => name),
    queueFaults: sqs.faults,
    dataApi,
    access,
    secretSuffix: secrets.suffix,
    crashDatabase: async (crash: CrashOptions) => {
      await foundation.postgres.crash(crash);
      state.processes.add(foundation.postgres.pid, "postgres");
      return foundation.postgres.pid;
    },
    cloudUrl: cloud.url,
  };
  const control = await serveControl(controlled, 0);
  cleanUp.defer(() => control.close());
  const apiUrl = await serveUrls(foundation, compute, options.apiPort, cleanUp);
  return { sqs, compute, named, cloudUrl: cloud.url, controlUrl: control.url, apiUrl };
}

/** Serves the function URLs and answers the address of the first, the API's. */
async function serveUrls(
  { plan, functionUrls }: Foundation,
  compute: Compute,
  apiPort: number,
  cleanUp: AsyncDisposableStack,
): Promise<string> {
  for (const { id, functionName } of plan.functionUrls) {
    const server = await serveFunctionUrl(compute.find(functionName), functionUrls.size === 0 ? apiPort : 0);
    cleanUp.defer(() => server.close());
    functionUrls.set(id, server.url);
  }
  return [...functionUrls.values()][0] ?? "";
}

function openDataApi({ postgres, plan, secrets }: Foundation, warn: (text: string) => void): DataApi {
  return createDataApi({
    host: postgres.host,
    port: postgres.port,
    resourceArn: plan.cluster.arn,
    database: plan.cluster.database,
    secret: (arn) => secrets.credentials(arn),
    onWarning: (warning) => warn(`Data API: ${JSON.stringify(warning)}`),
  });
}
