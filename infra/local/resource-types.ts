/* Each resource type that may stand in a template: what its Ref and attributes are, or why it is left out here. */

import { LocalError } from "./errors.ts";
import type { Json, JsonObject, RawResource, Template } from "./template.ts";

export const REGION = "us-east-1";
export const ACCOUNT_ID = "000000000000";

/** Resource types that have no meaning on one machine, and why. */
export const WITHOUT_MEANING: Readonly<Record<string, string>> = {
  "AWS::CDK::Metadata": "tells AWS which constructs are used",
  "AWS::CloudWatch::Alarm": "there are no CloudWatch metrics here; EMF lines are in the logs",
  "AWS::CloudWatch::CompositeAlarm": "there are no CloudWatch metrics here",
  "AWS::CloudWatch::Dashboard": "there are no CloudWatch metrics here",
  "AWS::EC2::EIP": "loopback only",
  "AWS::EC2::FlowLog": "loopback only",
  "AWS::EC2::InternetGateway": "loopback only",
  "AWS::EC2::NatGateway": "loopback only",
  "AWS::EC2::Route": "loopback only",
  "AWS::EC2::RouteTable": "loopback only",
  "AWS::EC2::SecurityGroup": "loopback only",
  "AWS::EC2::SecurityGroupEgress": "loopback only",
  "AWS::EC2::SecurityGroupIngress": "loopback only",
  "AWS::EC2::Subnet": "loopback only",
  "AWS::EC2::SubnetRouteTableAssociation": "loopback only",
  "AWS::EC2::VPC": "loopback only",
  "AWS::EC2::VPCEndpoint": "loopback only",
  "AWS::EC2::VPCGatewayAttachment": "loopback only",
  "AWS::KMS::Alias": "nothing is encrypted here",
  "AWS::KMS::Key": "nothing is encrypted here",
  "AWS::Logs::MetricFilter": "there are no CloudWatch metrics here",
  "AWS::Logs::QueryDefinition": "logs are files in the state folder",
  "AWS::RDS::DBClusterParameterGroup": "the local server has its own settings",
  "AWS::RDS::DBInstance": "the one local server is every instance of the cluster",
  "AWS::RDS::DBParameterGroup": "the local server has its own settings",
  "AWS::RDS::DBSubnetGroup": "loopback only",
  "AWS::SNS::Subscription": "nobody is notified from here",
  "AWS::SNS::Topic": "nobody is notified from here",
  "AWS::SNS::TopicPolicy": "nobody is notified from here",
  "AWS::Scheduler::ScheduleGroup": "a schedule needs no group here",
  "Custom::LogRetention": "logs are files in the state folder",
  "Custom::VpcRestrictDefaultSG": "loopback only",
};

/** What the values of a template depend on at run time. */
export interface Names {
  /** The physical name of a resource. */
  name(id: string): string;
  /** A property of a resource, resolved. */
  property(id: string, property: string): Json;
  readonly awsEndpoint: string;
  readonly databasePort: number;
  /** The six characters that AWS puts behind a secret's name; the same at every start of one state folder. */
  readonly secretSuffix: string;
  functionUrl(id: string): string;
}

type Attribute = (id: string, names: Names) => Json;
interface Running {
  readonly ref: Attribute;
  readonly attributes: Readonly<Record<string, Attribute>>;
}

const arn = (service: string, rest: string) => `arn:aws:${service}:${REGION}:${ACCOUNT_ID}:${rest}`;
const named: Attribute = (id, names) => names.name(id);
const functionArn: Attribute = (id, names) => arn("lambda", `function:${names.name(id)}`);
const queueUrl: Attribute = (id, names) => `${names.awsEndpoint}/${ACCOUNT_ID}/${names.name(id)}`;
const secretArn: Attribute = (id, names) => arn("secretsmanager", `secret:${names.name(id)}-${names.secretSuffix}`);
const targetArn: Attribute = (id, names) => {
  const target = String(names.property(id, "FunctionName"));
  return target.startsWith("arn:") ? target : arn("lambda", `function:${target}`);
};

/** Resource types that the local stack brings up, with the values that others may refer to. */
export const RUNNING: Readonly<Record<string, Running>> = {
  "AWS::SQS::Queue": {
    ref: queueUrl,
    attributes: { Arn: (id, names) => arn("sqs", names.name(id)), QueueName: named, QueueUrl: queueUrl },
  },
  "AWS::SQS::QueuePolicy": { ref: named, attributes: { Id: named } },
  "AWS::Lambda::Function": { ref: named, attributes: { Arn: functionArn } },
  "AWS::Lambda::Version": {
    ref: (id, names) => `${targetArn(id, names)}:1`,
    attributes: { Version: () => "1", FunctionArn: (id, names) => `${targetArn(id, names)}:1` },
  },
  "AWS::Lambda::EventSourceMapping": { ref: named, attributes: { Id: named } },
  "AWS::Lambda::EventInvokeConfig": { ref: named, attributes: {} },
  "AWS::Lambda::Permission": { ref: named, attributes: { Id: named } },
  "AWS::Lambda::Url": {
    ref: (id, names) => names.property(id, "TargetFunctionArn"),
    attributes: {
      FunctionArn: (id, names) => names.property(id, "TargetFunctionArn"),
      FunctionUrl: (id, names) => names.functionUrl(id),
    },
  },
  // the log itself is a file in the state folder
  "AWS::Logs::LogGroup": {
    ref: named,
    attributes: { Arn: (id, names) => arn("logs", `log-group:${names.name(id)}:*`) },
  },
  "AWS::IAM::Role": {
    ref: named,
    attributes: {
      Arn: (id, names) => `arn:aws:iam::${ACCOUNT_ID}:role/${names.name(id)}`,
      RoleId: (id) => `AROA${id}`,
    },
  },
  "AWS::IAM::Policy": { ref: named, attributes: { Id: named } },
  "AWS::IAM::ManagedPolicy": {
    ref: (id, names) => `arn:aws:iam::${ACCOUNT_ID}:policy/${names.name(id)}`,
    attributes: {},
  },
  "AWS::SecretsManager::Secret": { ref: secretArn, attributes: { Id: secretArn } },
  "AWS::SecretsManager::SecretTargetAttachment": {
    ref: (id, names) => names.property(id, "SecretId"),
    attributes: { Id: (id, names) => names.property(id, "SecretId") },
  },
  "AWS::RDS::DBCluster": {
    ref: (id, names) => names.name(id).toLowerCase(),
    attributes: {
      DBClusterArn: (id, names) => arn("rds", `cluster:${names.name(id).toLowerCase()}`),
      DBClusterResourceId: (id) => `cluster-${id.toUpperCase()}`,
      "Endpoint.Address": () => "127.0.0.1",
      "Endpoint.Port": (_, names) => String(names.databasePort),
      "ReadEndpoint.Address": () => "127.0.0.1",
      "MasterUserSecret.SecretArn": (id, names) =>
        arn("secretsmanager", `secret:rds!cluster-${names.name(id)}-${names.secretSuffix}`),
    },
  },
  "AWS::Scheduler::Schedule": {
    ref: named,
    attributes: { Arn: (id, n) => arn("scheduler", `schedule/default/${n.name(id)}`) },
  },
  "AWS::Events::Rule": { ref: named, attributes: { Arn: (id, names) => arn("events", `rule/${names.name(id)}`) } },
  "Custom::Trigger": { ref: named, attributes: {} },
};

/** The Ref or an attribute of a resource; undefined when its type has no such attribute. */
export function attributeOf(type: string, id: string, attribute: string | undefined, names: Names): Json | undefined {
  const running = RUNNING[type];
  if (running) return (attribute === undefined ? running.ref : running.attributes[attribute])?.(id, names);
  // What is left out keeps a value that shows where it came from, in case something refers to it.
  if (!(type in WITHOUT_MEANING)) return undefined;
  if (attribute === undefined) return names.name(id);
  return attribute.endsWith("Arn") ? arn("local", `${names.name(id)}`) : `${names.name(id)}.${attribute}`;
}

/** Refuses a template with a resource type on no list; answers those that are left out: type to ids. */
export function checkResourceTypes(template: Template): ReadonlyMap<string, readonly string[]> {
  const left = new Map<string, string[]>();
  for (const [id, { Type: type }] of Object.entries(template.Resources)) {
    if (type in RUNNING) continue;
    if (!(type in WITHOUT_MEANING)) throw new LocalError("RESOURCE_TYPE_UNKNOWN", { id, type });
    left.set(type, [...(left.get(type) ?? []), id]);
  }
  return left;
}

const EXPLICIT_NAMES: Readonly<Record<string, string>> = {
  "AWS::SQS::Queue": "QueueName",
  "AWS::Lambda::Function": "FunctionName",
  "AWS::IAM::Role": "RoleName",
  "AWS::Logs::LogGroup": "LogGroupName",
  "AWS::SecretsManager::Secret": "Name",
  "AWS::RDS::DBCluster": "DBClusterIdentifier",
};

/** The name a resource is called by here: its own, the one in its `millrace:name` metadata, or its logical id. */
export function physicalName(id: string, resource: RawResource): string {
  const property = EXPLICIT_NAMES[resource.Type];
  const explicit = property === undefined ? undefined : resource.Properties?.[property];
  if (typeof explicit === "string") return explicit;
  const given = (resource.Metadata as JsonObject | undefined)?.["millrace:name"];
  return typeof given === "string" ? given : id;
}
