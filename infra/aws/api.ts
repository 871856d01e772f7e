import { CfnOutput } from "aws-cdk-lib";
import * as lambda from "aws-cdk-lib/aws-lambda";
import type * as sqs from "aws-cdk-lib/aws-sqs";
import { Construct } from "constructs";
import type { Settings } from "../settings.ts";
import type { WorkerCloud } from "./cloud.ts";
import type { Database } from "./database.ts";
import { defineFunction } from "./functions.ts";
import { grantSend } from "./pipelines.ts";

export interface ApiProps {
  readonly database: Database;
  readonly hintQueue: sqs.Queue;
  /** Where the output of running jobs is read. */
  readonly cloud: WorkerCloud;
  readonly code: lambda.Code;
  readonly settings: Settings;
}

/** The HTTP API behind a function URL. Callers sign with IAM: `api.url.grantInvokeUrl(caller)`. */
export class Api extends Construct {
  readonly handler: lambda.Function;
  readonly url: lambda.FunctionUrl;

  constructor(scope: Construct, id: string, { database, hintQueue, cloud, code, settings }: ApiProps) {
    super(scope, id);
    this.handler = defineFunction(this, "Handler", {
      name: "api",
      code,
      timeoutSeconds: 30,
      environment: {
        ...database.environment(database.appSecret),
        HINT_QUEUE_URL: hintQueue.queueUrl,
        ...cloud.environment,
      },
      settings,
      reservedConcurrency: settings.concurrency.api,
    });
    database.grantTransactions(this.handler);
    grantSend(this.handler, hintQueue);
    cloud.grantOutput(this.handler);
    this.url = this.handler.addFunctionUrl({ authType: lambda.FunctionUrlAuthType.AWS_IAM });
    new CfnOutput(this, "Url", { value: this.url.url, description: "Base URL of the HTTP API" });
  }
}
