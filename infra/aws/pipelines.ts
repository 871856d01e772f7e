import { Stack } from "aws-cdk-lib";
import * as iam from "aws-cdk-lib/aws-iam";
import type * as lambda from "aws-cdk-lib/aws-lambda";
import type * as sqs from "aws-cdk-lib/aws-sqs";
import { Construct } from "constructs";
import type { Manifest } from "../../lib/index.ts";
import type { Settings } from "../settings.ts";
import { defineCloud, type WorkerCloud } from "./cloud.ts";
import type { Database } from "./database.ts";
import { defineFunction } from "./functions.ts";
import { consume, defineQueue, planConsumer, type QueuePair } from "./queues.ts";
import { invokeByClock } from "./schedules.ts";

export interface PipelinesProps {
  /** What is to be deployed, from the registry. */
  readonly manifest: Manifest;
  readonly database: Database;
  /** The bundles. One worker bundle serves every pipeline. */
  readonly code: Readonly<Record<"fetcher" | "worker" | "heartbeater", lambda.Code>>;
  readonly settings: Settings;
}

/**
 * All that the pipelines of a manifest need besides the database: a queue and a worker function for each,
 * one hint queue, one fetcher, one heartbeater and their schedules.
 *
 * The parts are ordinary constructs: `pipelines.workers["volumes"]` takes any grant, alarm or override.
 * Throws `InfraError` where the manifest's numbers do not fit together.
 */
export class Pipelines extends Construct {
  /** By name of the pipeline. */
  readonly workers: Readonly<Record<string, lambda.Function>>;
  readonly queues: Readonly<Record<string, sqs.Queue>>;
  readonly deadLetterQueues: Readonly<Record<string, sqs.Queue>>;
  readonly hintQueue: sqs.Queue;
  readonly hintDeadLetterQueue: sqs.Queue;
  readonly fetcher: lambda.Function;
  readonly heartbeater: lambda.Function;
  readonly cloud: WorkerCloud;
  private readonly props: PipelinesProps;

  constructor(scope: Construct, id: string, props: PipelinesProps) {
    super(scope, id);
    this.props = props;
    this.cloud = defineCloud(this, "Cloud", props.settings);

    const hints = this.hints();
    this.hintQueue = hints.pair.queue;
    this.hintDeadLetterQueue = hints.pair.deadLetters;

    const workers: Record<string, lambda.Function> = {};
    const queues: Record<string, sqs.Queue> = {};
    const deadLetterQueues: Record<string, sqs.Queue> = {};
    for (const pipeline of props.manifest.pipelines) {
      const { worker, pair } = this.pipeline(pipeline);
      workers[pipeline.name] = worker;
      queues[pipeline.name] = pair.queue;
      deadLetterQueues[pipeline.name] = pair.deadLetters;
    }
    this.workers = workers;
    this.queues = queues;
    this.deadLetterQueues = deadLetterQueues;

    this.heartbeater = this.defineHeartbeater();
    this.fetcher = this.defineFetcher();
    consume(this.fetcher, this.hintQueue, hints.consumer);
  }

  /** Every function of the pipelines: what has to wait for a migration. */
  get functions(): lambda.Function[] {
    return [this.fetcher, this.heartbeater, ...Object.values(this.workers)];
  }

  private hints() {
    const { fetcher } = this.props.manifest;
    const consumer = planConsumer({
      name: "hints",
      functionTimeoutSeconds: fetcher.timeoutSeconds,
      batchSize: fetcher.hintBatchSize,
      maxConcurrency: fetcher.hintConcurrency,
      reservedConcurrency: this.props.settings.concurrency.fetcher,
      otherCallers: 1,
    });
    return { consumer, pair: defineQueue(this, "Hints", consumer) };
  }

  private pipeline(pipeline: Manifest["pipelines"][number]): { worker: lambda.Function; pair: QueuePair } {
    const { database, code, settings } = this.props;
    const consumer = planConsumer(pipeline);
    const scope = new Construct(this, pipeline.name);
    const pair = defineQueue(scope, "Items", consumer);
    const worker = defineFunction(scope, "Worker", {
      name: `worker-${pipeline.name}`,
      code: code.worker,
      timeoutSeconds: pipeline.functionTimeoutSeconds,
      environment: {
        ...database.environment(database.appSecret),
        HINT_QUEUE_URL: this.hintQueue.queueUrl,
        PIPELINE: pipeline.name,
        ...this.cloud.environment,
      },
      settings,
      loops: true,
    });
    database.grantStatements(worker);
    grantSend(worker, this.hintQueue);
    // Every worker: a manifest does not say which of them have to do with the cloud.
    this.cloud.grant(worker);
    consume(worker, pair.queue, consumer);
    return { worker, pair };
  }

  private defineHeartbeater(): lambda.Function {
    const { manifest, code, settings } = this.props;
    const heartbeater = defineFunction(this, "Heartbeater", {
      name: "heartbeater",
      code: code.heartbeater,
      timeoutSeconds: manifest.heartbeater.timeoutSeconds,
      environment: this.senderEnvironment(),
      settings,
      reservedConcurrency: settings.concurrency.heartbeater,
      loops: true,
      scheduled: true,
    });
    this.grantSender(heartbeater);
    invokeByClock(this, "HeartbeaterSchedule", heartbeater, settings.schedulePeriodMinutes);
    return heartbeater;
  }

  private defineFetcher(): lambda.Function {
    const { manifest, code, settings } = this.props;
    const fetcher = defineFunction(this, "Fetcher", {
      name: "fetcher",
      code: code.fetcher,
      timeoutSeconds: manifest.fetcher.timeoutSeconds,
      environment: { ...this.senderEnvironment(), HEARTBEATER_FUNCTION_NAME: this.heartbeater.functionName },
      settings,
      reservedConcurrency: settings.concurrency.fetcher,
      loops: true,
      scheduled: true,
    });
    this.grantSender(fetcher);
    iam.Grant.addToPrincipal({
      grantee: fetcher,
      actions: ["lambda:InvokeFunction"],
      resourceArns: [this.heartbeater.functionArn],
    });
    invokeByClock(this, "FetcherSchedule", fetcher, settings.schedulePeriodMinutes);
    return fetcher;
  }

  /** For functions that send items: the database, every item queue and the hint queue. */
  private senderEnvironment(): Record<string, string> {
    const { database } = this.props;
    const urls = Object.entries(this.queues).map(([name, queue]) => [name, queue.queueUrl]);
    return {
      ...database.environment(database.appSecret),
      HINT_QUEUE_URL: this.hintQueue.queueUrl,
      ITEM_QUEUE_URLS: Stack.of(this).toJsonString(Object.fromEntries(urls)),
    };
  }

  private grantSender(sender: lambda.Function): void {
    this.props.database.grantStatements(sender);
    grantSend(sender, this.hintQueue, ...Object.values(this.queues));
  }
}

/** Sending and nothing else: CDK's own grant would add two rights to look at the queue. */
export function grantSend(grantee: iam.IGrantable, ...queues: sqs.Queue[]): void {
  iam.Grant.addToPrincipal({ grantee, actions: ["sqs:SendMessage"], resourceArns: queues.map((q) => q.queueArn) });
}
