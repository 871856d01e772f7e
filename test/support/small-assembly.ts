import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RawResource } from "../../infra/local/template.ts";

const HASH = "a".repeat(64);

/** Answers and does what its event says: enough to try everything that the local stack offers to a function. */
const HANDLER = `
  const scope = (service) => "AWS4-HMAC-SHA256 Credential=" + process.env.AWS_ACCESS_KEY_ID + "/20260101/us-east-1/" + service + "/aws4_request, Signature=unchecked";
  async function call({ service, path = "/", target, body }) {
    const headers = { authorization: scope(service), ...(target ? { "x-amz-target": target, "content-type": "application/x-amz-json-1.0" } : {}) };
    const answer = await fetch(process.env.AWS_ENDPOINT_URL + path, { method: "POST", headers, body: JSON.stringify(body) });
    return { status: answer.status, body: JSON.parse(await answer.text()) };
  }
  const sql = (text) => call({ service: "rds-data", path: "/Execute", body: { resourceArn: process.env.CLUSTER, secretArn: process.env.SECRET, database: "small", sql: text } });
  let count = 0;
  export const handler = async (event) => {
    console.log(JSON.stringify({ got: event }));
    if (event.requestContext) return { statusCode: 201, headers: { "x-own": "yes" }, body: JSON.stringify(event) };
    if (event.Records) return { batchItemFailures: [] };
    if (event.does === "throw") throw new Error("as told");
    if (event.does === "call") return call(event);
    if (event.does === "sql") return sql(event.sql);
    if (event.does === "env") return process.env;
    if (process.env.TRIGGER_FAILS) throw new Error("this migration is broken");
    return { count: ++count, event };
  };
`;

const ref = (id: string) => ({ Ref: id });
const att = (id: string, attribute: string) => ({ "Fn::GetAtt": [id, attribute] });
/** Who may take a role. */
const trust = (Service: string) => ({
  Statement: [{ Effect: "Allow", Action: "sts:AssumeRole", Principal: { Service } }],
});
const allow = (Action: string | string[], Resource: unknown) => ({ Effect: "Allow", Action, Resource });

function resources(): Record<string, unknown> {
  const secretPart = (part: string) => ({
    "Fn::Join": ["", ["{{resolve:secretsmanager:", ref("Secret"), `:SecretString:${part}::}}`]],
  });
  return {
    Vpc: { Type: "AWS::EC2::VPC" },
    Secret: {
      Type: "AWS::SecretsManager::Secret",
      Properties: {
        GenerateSecretString: { SecretStringTemplate: '{"username":"small_owner"}', GenerateStringKey: "password" },
      },
    },
    Attachment: {
      Type: "AWS::SecretsManager::SecretTargetAttachment",
      Properties: { SecretId: ref("Secret"), TargetId: ref("Cluster"), TargetType: "AWS::RDS::DBCluster" },
    },
    Cluster: {
      Type: "AWS::RDS::DBCluster",
      Properties: {
        EnableHttpEndpoint: true,
        DatabaseName: "small",
        MasterUsername: secretPart("username"),
        MasterUserPassword: secretPart("password"),
      },
    },
    Dead: { Type: "AWS::SQS::Queue", Metadata: { "millrace:name": "items-dead" } },
    Items: {
      Type: "AWS::SQS::Queue",
      Metadata: { "millrace:name": "items" },
      Properties: {
        VisibilityTimeout: 60,
        RedrivePolicy: { deadLetterTargetArn: att("Dead", "Arn"), maxReceiveCount: 5 },
      },
    },
    Role: { Type: "AWS::IAM::Role", Properties: { AssumeRolePolicyDocument: trust("lambda.amazonaws.com") } },
    Log: { Type: "AWS::Logs::LogGroup", Properties: { RetentionInDays: 1 } },
    Policy: {
      Type: "AWS::IAM::Policy",
      Properties: {
        Roles: [ref("Role")],
        PolicyDocument: {
          Statement: [
            allow("rds-data:ExecuteStatement", att("Cluster", "DBClusterArn")),
            allow("secretsmanager:GetSecretValue", ref("Attachment")),
            allow(["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"], att("Items", "Arn")),
            allow("sqs:SendMessage", att("Items", "Arn")),
            allow(["logs:CreateLogStream", "logs:PutLogEvents"], att("Log", "Arn")),
            // on AWS a function of CDK's invokes a trigger; here the function is its own
            allow("lambda:InvokeFunction", ref("Version")),
          ],
        },
      },
    },
    Fn: {
      Type: "AWS::Lambda::Function",
      Metadata: { "millrace:name": "worker" },
      Properties: {
        Runtime: "nodejs24.x",
        Handler: "index.handler",
        Timeout: 10,
        MemorySize: 128,
        Role: att("Role", "Arn"),
        LoggingConfig: { LogGroup: ref("Log") },
        Code: { S3Bucket: { "Fn::Join": ["-", ["assets", { Ref: "AWS::AccountId" }]] }, S3Key: `${HASH}.zip` },
        Environment: {
          Variables: { CLUSTER: att("Cluster", "DBClusterArn"), SECRET: ref("Attachment"), QUEUE: ref("Items") },
        },
      },
    },
    Version: { Type: "AWS::Lambda::Version", Properties: { FunctionName: ref("Fn") } },
    Async: {
      Type: "AWS::Lambda::EventInvokeConfig",
      Properties: { FunctionName: ref("Fn"), Qualifier: "$LATEST", MaximumRetryAttempts: 0 },
    },
    Mapping: {
      Type: "AWS::Lambda::EventSourceMapping",
      Properties: {
        FunctionName: ref("Fn"),
        EventSourceArn: att("Items", "Arn"),
        BatchSize: 5,
        ScalingConfig: { MaximumConcurrency: 2 },
        FunctionResponseTypes: ["ReportBatchItemFailures"],
      },
    },
    Url: { Type: "AWS::Lambda::Url", Properties: { AuthType: "AWS_IAM", TargetFunctionArn: att("Fn", "Arn") } },
    Trigger: { Type: "Custom::Trigger", Properties: { ServiceToken: att("Fn", "Arn"), HandlerArn: ref("Version") } },
    ClockRole: {
      Type: "AWS::IAM::Role",
      Properties: {
        AssumeRolePolicyDocument: trust("scheduler.amazonaws.com"),
        Policies: [{ PolicyDocument: { Statement: [allow("lambda:InvokeFunction", att("Fn", "Arn"))] } }],
      },
    },
    Clock: {
      Type: "AWS::Scheduler::Schedule",
      Properties: {
        ScheduleExpression: "rate(1 minute)",
        FlexibleTimeWindow: { Mode: "OFF" },
        Target: {
          Arn: att("Fn", "Arn"),
          RoleArn: att("ClockRole", "Arn"),
          Input: '{"millrace":"schedule","at":"<aws.scheduler.scheduled-time>"}',
        },
      },
    },
  };
}

/** A cloud assembly of one function with all that can be around it, in a folder to be removed. */
export function writeSmallAssembly(change: (resources: Record<string, RawResource>) => void = () => {}): Disposable & {
  readonly folder: string;
} {
  const folder = mkdtempSync(join(tmpdir(), "millrace-small-"));
  const asset = `asset.${HASH}`;
  mkdirSync(join(folder, asset));
  writeFileSync(join(folder, asset, "index.mjs"), HANDLER);
  const files = { [HASH]: { source: { path: asset, packaging: "zip" } } };
  writeFileSync(join(folder, "small.assets.json"), JSON.stringify({ files }));
  const Resources = resources() as Record<string, RawResource>;
  change(Resources);
  writeFileSync(join(folder, "small.template.json"), JSON.stringify({ Resources }));
  return { folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) };
}
