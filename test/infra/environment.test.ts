import { expect, it } from "vitest";
import { byName, resourcesOf, short } from "./assemble.ts";

const functions = byName(resourcesOf(), "AWS::Lambda::Function");

const database = (secret: string) => ({
  DATABASE_CLUSTER_ARN: "arn:AWS::Partition:rds:AWS::Region:AWS::AccountId:cluster:DatabaseCluster",
  DATABASE_SECRET_ARN: secret,
  DATABASE_NAME: "millrace",
});

const everywhere = (name: string) => ({
  NODE_OPTIONS: "--enable-source-maps",
  CALLS_IN_FLIGHT: "2",
  POWERTOOLS_SERVICE_NAME: name,
  POWERTOOLS_METRICS_NAMESPACE: "Millrace",
  POWERTOOLS_LOG_LEVEL: "DEBUG",
});

const app = database("DatabaseAppSecret");
const hints = { HINT_QUEUE_URL: "PipelinesHints" };
const items = {
  ITEM_QUEUE_URLS: '{"volumes":"PipelinesvolumesItems","jobs-running":"PipelinesjobsrunningItems"}',
};

const expected = {
  fetcher: { ...app, ...hints, ...items, HEARTBEATER_FUNCTION_NAME: "PipelinesHeartbeater" },
  heartbeater: { ...app, ...hints, ...items },
  "worker-volumes": { ...app, ...hints, PIPELINE: "volumes", CLOUD: "local" },
  "worker-jobs-running": { ...app, ...hints, PIPELINE: "jobs-running", CLOUD: "local" },
  api: { ...app, ...hints, CLOUD: "local" },
  migrate: { ...database("DatabaseClusterSecretAttachment"), APP_SECRET_ARN: "DatabaseAppSecret" },
};

it.each(Object.entries(expected))("%s has its environment and nothing else", (name, environment) => {
  const variables: Record<string, unknown> = functions[name]!.Properties.Environment.Variables;
  const found = Object.fromEntries(Object.entries(variables).map(([key, value]) => [key, short(value)]));
  expect(found).toEqual({ ...everywhere(name), ...environment });
});

it("covers every function", () => {
  expect(Object.keys(expected).sort()).toEqual(Object.keys(functions).sort());
});
