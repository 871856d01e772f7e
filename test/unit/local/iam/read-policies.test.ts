import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { readAssembly } from "../../../../infra/local/assembly.ts";
import { makeSecrets } from "../../../../infra/local/database.ts";
import { DeployedTemplate } from "../../../../infra/local/deployed-template.ts";
import { planStack } from "../../../../infra/local/plan.ts";
import { SecretStore } from "../../../../infra/local/secrets.ts";
import type { JsonObject, RawResource } from "../../../../infra/local/template.ts";
import { writeSmallAssembly } from "../../../support/small-assembly.ts";

const scratch = mkdtempSync(join(tmpdir(), "millrace-policies-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

type Resources = Record<string, RawResource>;

/** The plan of the small stack, changed before. */
function plan(change: (resources: Resources) => void = () => {}) {
  using small = writeSmallAssembly(change);
  const assembly = readAssembly(small.folder);
  const secrets = new SecretStore(join(mkdtempSync(join(scratch, "s-")), "secrets.json"));
  const awsEndpoint = "http://127.0.0.1:1";
  const addresses = { awsEndpoint, databasePort: 1, functionUrl: () => awsEndpoint };
  const template = new DeployedTemplate(assembly, addresses, secrets);
  makeSecrets(template, secrets);
  return planStack(template, { assembly, secrets, awsEndpoint, databasePort: 1 });
}

const properties = (resources: Resources, id: string) => resources[id]!.Properties as Record<string, JsonObject>;
const att = (id: string, attribute: string) => ({ "Fn::GetAtt": [id, attribute] });
const allow = (Action: string, Resource: unknown = "*") => ({ Effect: "Allow", Action, Resource });

/** Takes one action out of the worker's policy. */
const without = (action: string) => (resources: Resources) => {
  const { Statement } = properties(resources, "Policy")["PolicyDocument"] as unknown as {
    Statement: { Action: unknown }[];
  };
  for (const each of Statement) each.Action = [each.Action].flat().filter((one) => one !== action);
};

const worker = { role: "Role", session: "worker" };
const send = { action: "sqs:SendMessage", resource: "arn:aws:sqs:us-east-1:000000000000:items-dead" };

test("policies count wherever they stand: with the role, by themselves, attached, of the template or of AWS", () => {
  expect(plan().policies.judge(worker, send).refused).toBe("noPermission");
  const document = { Statement: [allow("sqs:SendMessage", att("Dead", "Arn"))] };
  const places: ((resources: Resources) => void)[] = [
    (r) => Object.assign(properties(r, "Role"), { Policies: [{ PolicyName: "x", PolicyDocument: document }] }),
    (r) =>
      Object.assign(r, {
        P: { Type: "AWS::IAM::Policy", Properties: { Roles: [{ Ref: "Role" }], PolicyDocument: document } },
      }),
    (r) =>
      Object.assign(r, {
        P: { Type: "AWS::IAM::ManagedPolicy", Properties: { Roles: [{ Ref: "Role" }], PolicyDocument: document } },
      }),
    (r) => {
      Object.assign(r, { P: { Type: "AWS::IAM::ManagedPolicy", Properties: { PolicyDocument: document } } });
      Object.assign(properties(r, "Role"), { ManagedPolicyArns: [{ Ref: "P" }] });
    },
    (r) => {
      const statement = { Effect: "Allow", Principal: { AWS: att("Role", "Arn") }, Action: "sqs:SendMessage" };
      const Properties = { Queues: [{ Ref: "Dead" }], PolicyDocument: { Statement: statement } };
      Object.assign(r, { P: { Type: "AWS::SQS::QueuePolicy", Properties } });
    },
  ];
  for (const place of places) expect(plan(place as never).policies.judge(worker, send).refused).toBeUndefined();
  const basic = "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole";
  const attached = plan((r) => Object.assign(properties(r, "Role"), { ManagedPolicyArns: [basic] }));
  const makeGroup = { action: "logs:CreateLogGroup", resource: "arn:aws:logs:us-east-1:000000000000:log-group:any" };
  expect(attached.policies.judge(worker, makeGroup).refused).toBeUndefined();
});

describe("refused at the start, with what is missing:", () => {
  const lacks = (what: string, statement: string) =>
    expect.objectContaining({
      code: "ROLE_LACKS_PERMISSION",
      details: expect.objectContaining({ what, statement: expect.stringContaining(statement) }),
    });

  test.each<[string, string, string]>([
    ["sqs:ReceiveMessage", "the event source mapping", ":items"],
    ["sqs:DeleteMessage", "the event source mapping", ":items"],
    ["sqs:GetQueueAttributes", "the event source mapping", ":items"],
    ["logs:CreateLogStream", "to write the log of worker", ":log-group:Log:*"],
    ["logs:PutLogEvents", "to write the log of worker", ":log-group:Log:*"],
    ["lambda:InvokeFunction", "trigger Trigger", ":function:worker:1"],
  ])("%s, for %s", (action, what, resource) => {
    expect(() => plan(without(action))).toThrow(lacks(what, `"${action}"`));
    expect(() => plan(without(action))).toThrow(resource);
  });

  test("a function whose log group nobody has made, and whose role may not make one", () => {
    expect(() => plan((r) => delete properties(r, "Fn")["LoggingConfig"])).toThrow(
      lacks("to write the log of worker", '"logs:CreateLogGroup"'),
    );
  });

  test("a schedule's role that may not invoke", () => {
    expect(() => plan((r) => delete properties(r, "ClockRole")["Policies"])).toThrow(
      lacks("schedule Clock", '"lambda:InvokeFunction"'),
    );
  });

  test.each([
    ["Role", "function worker"],
    ["ClockRole", "schedule Clock"],
  ])("a role that its service may not take: %s", (role, what) => {
    const Principal = { Service: "ec2.amazonaws.com" };
    const Statement = [{ Effect: "Allow", Action: "sts:AssumeRole", Principal }];
    const change = (r: Resources) => Object.assign(properties(r, role), { AssumeRolePolicyDocument: { Statement } });
    expect(() => plan(change)).toThrow(lacks(what, '"sts:AssumeRole"'));
  });

  test("a schedule's role for schedules of another group", () => {
    const trust = (group: string) => (r: Resources) => {
      const Condition = {
        StringEquals: { "aws:SourceArn": `arn:aws:scheduler:us-east-1:000000000000:schedule-group/${group}` },
      };
      const statement = {
        Effect: "Allow",
        Action: "sts:AssumeRole",
        Principal: { Service: "scheduler.amazonaws.com" },
      };
      Object.assign(properties(r, "ClockRole"), {
        AssumeRolePolicyDocument: { Statement: { ...statement, Condition } },
      });
    };
    expect(() => plan(trust("default"))).not.toThrow();
    expect(() => plan(trust("other"))).toThrow(lacks("schedule Clock", '"sts:AssumeRole"'));
  });

  test("a rule that the function's own policy does not let in, or only from another rule", () => {
    const rule = (permission?: object) => (r: Resources) => {
      const Targets = [{ Id: "t", Arn: att("Fn", "Arn") }];
      Object.assign(r, {
        Rule: { Type: "AWS::Events::Rule", Properties: { ScheduleExpression: "rate(1 day)", Targets } },
      });
      if (!permission) return;
      const Properties = {
        Action: "lambda:InvokeFunction",
        FunctionName: { Ref: "Fn" },
        Principal: "events.amazonaws.com",
      };
      Object.assign(r, {
        Permission: { Type: "AWS::Lambda::Permission", Properties: { ...Properties, ...permission } },
      });
    };
    expect(() => plan(rule())).toThrow(lacks("schedule Rule", '"lambda:InvokeFunction"'));
    expect(() => plan(rule({ SourceArn: att("Rule", "Arn") }))).not.toThrow();
    expect(() => plan(rule({ SourceArn: "arn:aws:events:us-east-1:000000000000:rule/Other" }))).toThrow(
      lacks("schedule Rule", ""),
    );
    expect(() => plan(rule({ SourceAccount: "111111111111" }))).toThrow(lacks("schedule Rule", ""));
    expect(() => plan(rule({ Principal: "s3.amazonaws.com" }))).toThrow(lacks("schedule Rule", ""));
  });

  test("a function URL without signatures that the function's policy does not open", () => {
    const open = (permission?: object) => (r: Resources) => {
      Object.assign(properties(r, "Url"), { AuthType: "NONE" });
      const Properties = { Action: "lambda:InvokeFunctionUrl", FunctionName: att("Fn", "Arn"), Principal: "*" };
      if (permission)
        Object.assign(r, { P: { Type: "AWS::Lambda::Permission", Properties: { ...Properties, ...permission } } });
    };
    expect(() => plan(open())).toThrow(lacks("calls of function URL Url", '"lambda:InvokeFunctionUrl"'));
    expect(() => plan(open({ FunctionUrlAuthType: "NONE" }))).not.toThrow();
    expect(() => plan(open({ FunctionUrlAuthType: "AWS_IAM" }))).toThrow(lacks("calls of function URL Url", ""));
  });
});

test.each<[string, (resources: Resources) => void]>([
  [
    "an attached policy",
    (r) => Object.assign(properties(r, "Role"), { ManagedPolicyArns: ["arn:aws:iam::aws:policy/AdministratorAccess"] }),
  ],
  ["a permissions boundary", (r) => Object.assign(properties(r, "Role"), { PermissionsBoundary: "arn:x" })],
  [
    "a permission for an organization",
    (r) =>
      Object.assign(r, {
        P: {
          Type: "AWS::Lambda::Permission",
          Properties: { FunctionName: "worker", Principal: "*", PrincipalOrgID: "o" },
        },
      }),
  ],
])("%s is not evaluated, and said so", (_, change) => {
  expect(() => plan(change)).toThrow(expect.objectContaining({ code: "POLICY_UNSUPPORTED" }));
});

test.each([
  ["Items", "KmsMasterKeyId"],
  ["Secret", "KmsKeyId"],
])("a key of KMS at %s is refused", (id, property) => {
  expect(() => plan((r) => Object.assign(properties(r, id), { [property]: "key" }))).toThrow(
    expect.objectContaining({ code: "PROPERTY_UNSUPPORTED", details: expect.objectContaining({ id, property }) }),
  );
});
