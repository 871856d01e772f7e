/* A running stack as `local.json` tells of it. */

import type { Foundation } from "./foundation.ts";
import { ACCOUNT_ID, REGION } from "./resource-types.ts";
import type { RunningServices } from "./running-services.ts";
import type { Local } from "./state.ts";

/** Everything that a client needs to reach the stack. */
export function describeStack(foundation: Foundation, running: RunningServices): Local {
  const { plan, postgres, awsEndpoint } = foundation;
  const dead = new Set(plan.queues.map(({ deadUrl }) => deadUrl));
  const queues = plan.queues.filter(({ url }) => !dead.has(url));
  return {
    version: 1,
    pid: process.pid,
    awsEndpoint,
    apiUrl: running.apiUrl,
    controlUrl: running.controlUrl,
    cloudUrl: running.cloudUrl,
    databaseUrl: postgres.url(plan.cluster.database),
    region: REGION,
    accountId: ACCOUNT_ID,
    clusterArn: plan.cluster.arn,
    secretArn: plan.cluster.masterSecretArn,
    database: plan.cluster.database,
    queues: Object.fromEntries(
      queues.map(({ name, url, arn, deadUrl }) => [name, { url, arn, ...(deadUrl ? { deadUrl } : {}) }]),
    ),
    functions: Object.fromEntries(
      running.named.map(({ spec, log }) => [spec.name, { arn: spec.arn, logFile: log.file }]),
    ),
  };
}
