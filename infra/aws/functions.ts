import { type CfnResource, Duration, type IResource, RemovalPolicy } from "aws-cdk-lib";
import * as iam from "aws-cdk-lib/aws-iam";
import * as lambda from "aws-cdk-lib/aws-lambda";
import * as logs from "aws-cdk-lib/aws-logs";
import type { Construct } from "constructs";
import type { Settings } from "../settings.ts";

export interface FunctionDefinition {
  /** Name by which logs, metrics and the local stack know it; not a physical name. */
  readonly name: string;
  /** A bundle: `index.mjs` exports `handler`. */
  readonly code: lambda.Code;
  readonly timeoutSeconds: number;
  readonly environment: Record<string, string>;
  readonly settings: Settings;
  /** Default: none; an event source mapping may bound it instead. */
  readonly reservedConcurrency?: number;
  /** It takes part in hint → fetcher → item → worker → hint, which Lambda would otherwise stop after 16 rounds. */
  readonly loops?: boolean;
  /** Invoked by the clock: an event that cannot be delivered within a minute is dropped, the next one follows. */
  readonly scheduled?: boolean;
}

/** The one place that says how a function runs and logs. Its role may write its own log and nothing else. */
export function defineFunction(scope: Construct, id: string, definition: FunctionDefinition): lambda.Function {
  const { name, settings } = definition;
  const logGroup = new logs.LogGroup(scope, `${id}Log`, {
    retention: settings.logs.retentionDays,
    removalPolicy: RemovalPolicy.DESTROY,
  });
  const role = new iam.Role(scope, `${id}Role`, { assumedBy: new iam.ServicePrincipal("lambda.amazonaws.com") });
  const handler = new lambda.Function(scope, id, {
    description: `Millrace ${name}`,
    code: definition.code,
    handler: "index.handler",
    runtime: lambda.Runtime.NODEJS_24_X,
    architecture: lambda.Architecture.ARM_64,
    memorySize: settings.memoryMegabytes,
    timeout: Duration.seconds(definition.timeoutSeconds),
    reservedConcurrentExecutions: definition.reservedConcurrency,
    recursiveLoop: definition.loops ? lambda.RecursiveLoop.ALLOW : undefined,
    ...(definition.scheduled ? { retryAttempts: 0, maxEventAge: Duration.seconds(60) } : {}),
    role,
    logGroup,
    loggingFormat: lambda.LoggingFormat.JSON,
    applicationLogLevelV2: lambda.ApplicationLogLevel[settings.logs.level],
    environment: {
      NODE_OPTIONS: "--enable-source-maps",
      CALLS_IN_FLIGHT: String(settings.concurrency.callsInFlight),
      POWERTOOLS_SERVICE_NAME: name,
      POWERTOOLS_METRICS_NAMESPACE: "Millrace",
      POWERTOOLS_LOG_LEVEL: settings.logs.level,
      ...definition.environment,
    },
  });
  logGroup.grantWrite(role);
  nameResource(handler, name);
  return handler;
}

/** Writes the name by which tools outside CloudFormation find a resource in the template. */
export function nameResource(resource: IResource, name: string): void {
  (resource.node.defaultChild as CfnResource).addMetadata("millrace:name", name);
}
