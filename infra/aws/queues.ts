import { Duration, Names, RemovalPolicy } from "aws-cdk-lib";
import * as iam from "aws-cdk-lib/aws-iam";
import type * as lambda from "aws-cdk-lib/aws-lambda";
import * as sqs from "aws-cdk-lib/aws-sqs";
import type { Construct } from "constructs";
import { type Consumer, checkConsumer, visibilityFor } from "./checks.ts";
import { nameResource } from "./functions.ts";

export interface QueuePair {
  readonly queue: sqs.Queue;
  /** Messages that could not be handled: the database was away for hours, or a function could not start. */
  readonly deadLetters: sqs.Queue;
}

/** What a queue needs to know of the function that empties it. */
export interface QueueDefinition {
  readonly name: string;
  readonly functionTimeoutSeconds: number;
  readonly batchSize: number;
  readonly maxConcurrency: number;
  readonly reservedConcurrency?: number;
  /** Invocations besides those for this queue. Default 0. */
  readonly otherCallers?: number;
}

const day = 86_400;

/** The numbers of a queue, checked. Messages are keys to rows, so nothing waits for a fuller batch. */
export function planConsumer(definition: QueueDefinition): Consumer {
  const window = 0;
  const consumer: Consumer = {
    name: definition.name,
    functionTimeout: definition.functionTimeoutSeconds,
    reservedConcurrency: definition.reservedConcurrency,
    otherCallers: definition.otherCallers ?? 0,
    maxConcurrency: definition.maxConcurrency,
    batchSize: definition.batchSize,
    window,
    visibility: visibilityFor(definition.functionTimeoutSeconds, window),
    retention: 4 * day,
    receiveCount: 5,
    deadLetterRetention: 14 * day,
  };
  checkConsumer(consumer);
  return consumer;
}

export function defineQueue(scope: Construct, id: string, consumer: Consumer): QueuePair {
  const shared = {
    enforceSSL: true,
    encryption: sqs.QueueEncryption.SQS_MANAGED,
    removalPolicy: RemovalPolicy.DESTROY,
  };
  const deadLetters = new sqs.Queue(scope, `${id}Dead`, {
    ...shared,
    retentionPeriod: Duration.seconds(consumer.deadLetterRetention),
  });
  const queue = new sqs.Queue(scope, id, {
    ...shared,
    visibilityTimeout: Duration.seconds(consumer.visibility),
    retentionPeriod: Duration.seconds(consumer.retention),
    deadLetterQueue: { queue: deadLetters, maxReceiveCount: consumer.receiveCount },
  });
  nameResource(queue, consumer.name);
  nameResource(deadLetters, `${consumer.name}-dead`);
  return { queue, deadLetters };
}

/**
 * Lets the function empty the queue. It answers which messages failed; the others are deleted. Lambda polls as the
 * function's role, with three rights; CDK's own event source would add two that nobody uses.
 * https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
 */
export function consume(handler: lambda.Function, queue: sqs.Queue, consumer: Consumer): void {
  const grant = iam.Grant.addToPrincipal({
    grantee: handler,
    actions: ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"],
    resourceArns: [queue.queueArn],
  });
  const mapping = handler.addEventSourceMapping(`SqsEventSource:${Names.nodeUniqueId(queue.node)}`, {
    eventSourceArn: queue.queueArn,
    batchSize: consumer.batchSize,
    maxBatchingWindow: Duration.seconds(consumer.window),
    maxConcurrency: consumer.maxConcurrency,
    reportBatchItemFailures: true,
  });
  // AWS refuses a mapping whose function may not read the queue yet
  grant.applyBefore(mapping);
}
