/*
 * Policies of AWS that a role may have attached, as AWS publishes them. Others are an error: what they allow would be a
 * guess. https://docs.aws.amazon.com/aws-managed-policy/latest/reference/policy-list.html
 */

import type { PolicyDocument } from "./policy-json.ts";

const allow = (...Action: string[]): PolicyDocument => ({ Statement: [{ Effect: "Allow", Action, Resource: "*" }] });
const LOGS = ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"];

/** By the end of their ARN. */
export const MANAGED_POLICIES: Readonly<Record<string, PolicyDocument>> = {
  "service-role/AWSLambdaBasicExecutionRole": allow(...LOGS),
  "service-role/AWSLambdaSQSQueueExecutionRole": allow(
    ...["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", ...LOGS],
  ),
};
