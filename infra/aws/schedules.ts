import { Aws, Duration, Stack } from "aws-cdk-lib";
import * as iam from "aws-cdk-lib/aws-iam";
import type * as lambda from "aws-cdk-lib/aws-lambda";
import { Schedule, ScheduleExpression, ScheduleTargetInput, TimeWindow } from "aws-cdk-lib/aws-scheduler";
import { LambdaInvoke } from "aws-cdk-lib/aws-scheduler-targets";
import type { Construct } from "constructs";

/**
 * Invokes a function every so many minutes with `{"millrace":"schedule"}`.
 * A run that cannot be delivered within a minute is dropped, not repeated: the next one does the same work.
 */
export function invokeByClock(scope: Construct, id: string, handler: lambda.Function, periodMinutes: number): void {
  const group = Stack.of(scope).formatArn({
    service: "scheduler",
    resource: "schedule-group",
    resourceName: "default",
  });
  const role = new iam.Role(scope, `${id}Role`, {
    assumedBy: new iam.ServicePrincipal("scheduler.amazonaws.com", {
      conditions: { StringEquals: { "aws:SourceAccount": Aws.ACCOUNT_ID, "aws:SourceArn": group } },
    }),
  });
  const grant = iam.Grant.addToPrincipal({
    grantee: role,
    actions: ["lambda:InvokeFunction"],
    resourceArns: [handler.functionArn],
  });
  const schedule = new Schedule(scope, id, {
    schedule: ScheduleExpression.rate(Duration.minutes(periodMinutes)),
    timeWindow: TimeWindow.off(),
    target: new LambdaInvoke(handler, {
      // The role is complete: CDK's own grant would add every version of the function.
      role: role.withoutPolicyUpdates(),
      input: ScheduleTargetInput.fromObject({ millrace: "schedule" }),
      retryAttempts: 0,
      maxEventAge: Duration.seconds(60),
    }),
  });
  grant.applyBefore(schedule);
}
