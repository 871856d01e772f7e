import { PolicyStatement } from "aws-cdk-lib/aws-iam";
import { describe, expect, it } from "vitest";
import { ofType, plain, type Resources, resourcesOf, short } from "./assemble.ts";

const resources = resourcesOf();

interface Statement {
  readonly Effect: string;
  readonly Action: string | string[];
  readonly Resource: unknown;
}

/** What a role may do: `action resource`, sorted. */
function rights(all: Resources, role: string): string[] {
  return ofType(all, "AWS::IAM::Policy")
    .filter(([, { Properties }]) => Properties.Roles.some((r: { Ref: string }) => plain(r.Ref) === role))
    .flatMap(([, { Properties }]) => Properties.PolicyDocument.Statement as Statement[])
    .flatMap(({ Action, Resource }) =>
      [Action].flat().flatMap((action) => [Resource].flat().map((resource) => `${action} ${short(resource)}`)),
    )
    .sort();
}

const cluster = "arn:AWS::Partition:rds:AWS::Region:AWS::AccountId:cluster:DatabaseCluster";
const log = (id: string) => [`logs:CreateLogStream ${id}.Arn`, `logs:PutLogEvents ${id}.Arn`];
const statements = [`rds-data:ExecuteStatement ${cluster}`, "secretsmanager:GetSecretValue DatabaseAppSecret"];
const transactions = ["Begin", "Commit", "Rollback"].map((verb) => `rds-data:${verb}Transaction ${cluster}`);
const consume = (queue: string) =>
  ["DeleteMessage", "GetQueueAttributes", "ReceiveMessage"].map((action) => `sqs:${action} ${queue}.Arn`);
const send = (...queues: string[]) => queues.map((queue) => `sqs:SendMessage ${queue}.Arn`);
const allQueues = ["PipelinesHints", "PipelinesvolumesItems", "PipelinesjobsrunningItems"];

/** Every role of ours, and all that it may do. */
const expected: Record<string, string[]> = {
  PipelinesFetcherRole: [
    ...log("PipelinesFetcherLog"),
    ...statements,
    ...send(...allQueues),
    ...consume("PipelinesHints"),
    "lambda:InvokeFunction PipelinesHeartbeater.Arn",
  ],
  PipelinesHeartbeaterRole: [...log("PipelinesHeartbeaterLog"), ...statements, ...send(...allQueues)],
  PipelinesvolumesWorkerRole: [
    ...log("PipelinesvolumesWorkerLog"),
    ...statements,
    ...send("PipelinesHints"),
    ...consume("PipelinesvolumesItems"),
  ],
  PipelinesjobsrunningWorkerRole: [
    ...log("PipelinesjobsrunningWorkerLog"),
    ...statements,
    ...send("PipelinesHints"),
    ...consume("PipelinesjobsrunningItems"),
  ],
  ApiHandlerRole: [...log("ApiHandlerLog"), ...statements, ...transactions, ...send("PipelinesHints")],
  MigrationsMigrateRole: [
    ...log("MigrationsMigrateLog"),
    `rds-data:ExecuteStatement ${cluster}`,
    ...transactions,
    "secretsmanager:GetSecretValue DatabaseClusterSecretAttachment",
    "secretsmanager:GetSecretValue DatabaseAppSecret",
  ],
  PipelinesFetcherScheduleRole: ["lambda:InvokeFunction PipelinesFetcher.Arn"],
  PipelinesHeartbeaterScheduleRole: ["lambda:InvokeFunction PipelinesHeartbeater.Arn"],
};

/** Roles that CDK makes for functions of its own, which run during a deployment only. */
const cdkRoles = [
  "AWSCDKTriggerCustomResourceProviderCustomResourceProviderRole",
  "CustomVpcRestrictDefaultSGCustomResourceProviderRole",
];

describe("least privilege", () => {
  it.each(Object.entries(expected))("%s may do this and nothing else", (role, allowed) => {
    expect(rights(resources, role)).toEqual([...allowed].sort());
  });

  it("covers every role and every policy", () => {
    const roles = ofType(resources, "AWS::IAM::Role").map(([id]) => plain(id));
    expect(roles.sort()).toEqual([...Object.keys(expected), ...cdkRoles].sort());
    const types = new Set(Object.values(resources).map(({ Type }) => Type));
    expect([...types].filter((type) => /ManagedPolicy|Lambda::Permission|ResourcePolicy/.test(type))).toEqual([]);
  });

  it("takes policies of AWS for CDK's own functions only", () => {
    const managed = ofType(resources, "AWS::IAM::Role")
      .filter(([, { Properties }]) => Properties.ManagedPolicyArns)
      .map(([id]) => plain(id));
    expect(managed.sort()).toEqual(cdkRoles);
  });

  it("keeps the owner's secret from everything but the migration", () => {
    const owners = Object.keys(expected).filter((role) =>
      rights(resources, role).some((right) => right.includes("ClusterSecret")),
    );
    expect(owners).toEqual(["MigrationsMigrateRole"]);
  });
});

describe("queues", () => {
  const reach = (role: string) => rights(resources, role).filter((right) => right.startsWith("sqs:"));

  it("are reached by the API to send hints alone: it neither sends nor receives items", () => {
    expect(reach("ApiHandlerRole")).toEqual(["sqs:SendMessage PipelinesHints.Arn"]);
  });

  it.each(["volumes", "jobsrunning"])("of other pipelines are out of the reach of the worker of %s", (pipeline) => {
    const queues = new Set(reach(`Pipelines${pipeline}WorkerRole`).map((right) => right.split(" ")[1]));
    expect([...queues].sort()).toEqual(["PipelinesHints.Arn", `Pipelines${pipeline}Items.Arn`]);
    expect(reach(`Pipelines${pipeline}WorkerRole`)).not.toContain(`sqs:SendMessage Pipelines${pipeline}Items.Arn`);
  });

  it("of dead letters, and the queues themselves, are nobody's to change", () => {
    const all = Object.keys(expected).flatMap(reach);
    expect(all.filter((right) => right.includes("Dead"))).toEqual([]);
    const actions = new Set(all.map((right) => right.split(" ")[0]));
    const polling = ["sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"];
    expect([...actions].sort()).toEqual([...polling, "sqs:SendMessage"]);
  });

  it("are mapped to a function only when its role may read them", () => {
    for (const [, { Properties, DependsOn }] of ofType(resources, "AWS::Lambda::EventSourceMapping")) {
      const worker = short(Properties.FunctionName);
      expect((DependsOn ?? []).map(plain), worker).toContain(`${worker}RoleDefaultPolicy`);
    }
  });
});

describe("wildcards", () => {
  it("stand in no policy that allows something, but for versions in the role of CDK's trigger", () => {
    const found = ofType(resources, "AWS::IAM::Policy")
      .concat(ofType(resources, "AWS::IAM::Role"))
      .flatMap(([id, { Properties }]) => {
        const inline = (Properties.Policies ?? []).map((policy: { PolicyDocument: unknown }) => policy.PolicyDocument);
        const documents = [Properties.PolicyDocument, ...inline].filter((document) => document !== undefined);
        return documents
          .flatMap((document: { Statement: Statement[] }) => document.Statement)
          .filter((statement) => statement.Effect === "Allow" && JSON.stringify(statement).includes("*"))
          .map(
            (statement) =>
              `${plain(id)}: ${statement.Action} ${[statement.Resource].flat().map((r) => JSON.stringify(r))}`,
          );
      });
    expect(found).toMatchInlineSnapshot(`
      [
        "AWSCDKTriggerCustomResourceProviderCustomResourceProviderRole: lambda:InvokeFunction {"Fn::Join":["",[{"Fn::GetAtt":["MigrationsMigrateB0EE37DC","Arn"]},":*"]]}",
      ]
    `);
  });

  it("are found where a policy has one", () => {
    const statement = new PolicyStatement({ actions: ["s3:GetObject"], resources: ["*"] });
    const changed = resourcesOf({ change: ({ pipelines }) => pipelines.fetcher.addToRolePolicy(statement) });
    expect(rights(changed, "PipelinesFetcherRole")).toContain("s3:GetObject *");
  });
});
