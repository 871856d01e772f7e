/* All policies of a template: of its roles, of its queues, of its functions. */

import type { DeployedTemplate, Resource } from "../deployed-template.ts";
import { LocalError } from "../errors.ts";
import { functionName } from "../lambda/invoke-api.ts";
import { ACCOUNT_ID, REGION } from "../resource-types.ts";
import type { Json, JsonObject } from "../template.ts";
import { MANAGED_POLICIES } from "./managed-policies.ts";
import { Policies } from "./policies.ts";
import { list, type PolicyDocument, unsupported } from "./policy-json.ts";
import { roleArn } from "./principals.ts";

const object = (value: Json | undefined) => (value ?? {}) as JsonObject;

/** Reads every policy. Throws POLICY_UNSUPPORTED for what cannot be judged here, PROPERTY_UNSUPPORTED for KMS keys. */
export function readPolicies(template: DeployedTemplate): Policies {
  const policies = new Policies();
  for (const role of template.ofType("AWS::IAM::Role")) addRole(policies, template, role);
  for (const { id, properties } of template.ofType("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")) {
    for (const role of list(properties["Roles"])) {
      policies.addToRole(role, id, object(properties["PolicyDocument"]));
    }
  }
  const queues = new Map(
    template.idsOfType("AWS::SQS::Queue").map((id) => [template.valueOf(id), template.valueOf(id, "Arn")]),
  );
  for (const { id, properties } of template.ofType("AWS::SQS::QueuePolicy")) {
    for (const url of list(properties["Queues"])) {
      policies.addToResource(queues.get(url) ?? url, id, object(properties["PolicyDocument"]));
    }
  }
  const functions = new Map(
    template.ofType("AWS::Lambda::Function").map(({ id, name }) => [name, template.valueOf(id, "Arn")]),
  );
  for (const permission of template.ofType("AWS::Lambda::Permission")) {
    const reference = String(permission.properties["FunctionName"]);
    const arn = reference.startsWith("arn:") ? reference : functions.get(functionName(reference));
    policies.addToResource(arn ?? reference, permission.id, documentOf(permission));
  }
  refuseKeys(template);
  return policies;
}

function addRole(policies: Policies, template: DeployedTemplate, { id, name, properties }: Resource): void {
  if (properties["PermissionsBoundary"] !== undefined) throw unsupported(id, "a permissions boundary");
  for (const policy of (properties["Policies"] ?? []) as readonly JsonObject[]) {
    policies.addToRole(name, id, object(policy["PolicyDocument"]));
  }
  for (const arn of list(properties["ManagedPolicyArns"])) policies.addToRole(name, id, managed(template, id, arn));
  policies.addToResource(roleArn(name), id, object(properties["AssumeRolePolicyDocument"]));
}

/** A policy that is attached by its ARN: one of the template, or one of AWS that is known here. */
function managed(template: DeployedTemplate, id: string, arn: string): PolicyDocument {
  const own = template.ofType("AWS::IAM::ManagedPolicy").find((each) => template.valueOf(each.id) === arn);
  if (own) return object(own.properties["PolicyDocument"]);
  const known = MANAGED_POLICIES[arn.replace(/^arn:aws:iam::aws:policy\//, "")];
  if (!known) throw unsupported(id, `the attached policy ${arn}`);
  return known;
}

/** What a permission says, as a statement: it is how a function's own policy is written in templates. */
function documentOf({ id, properties }: Resource): PolicyDocument {
  const { Action, Principal, SourceArn, SourceAccount, FunctionUrlAuthType, InvokedViaFunctionUrl } = properties;
  for (const property of ["EventSourceToken", "PrincipalOrgID"]) {
    if (properties[property] !== undefined) throw unsupported(id, `the property ${property}`);
  }
  const principal = String(Principal);
  const given = (operator: string, key: string, value: Json | undefined) =>
    value === undefined ? [] : [[operator, key, value] as const];
  const conditions = [
    ...given("ArnLike", "aws:SourceArn", SourceArn),
    ...given("StringEquals", "aws:SourceAccount", SourceAccount),
    ...given("StringEqualsIgnoreCase", "lambda:FunctionUrlAuthType", FunctionUrlAuthType),
    ...given("Bool", "lambda:InvokedViaFunctionUrl", InvokedViaFunctionUrl),
  ];
  const block: Record<string, Record<string, Json>> = {};
  for (const [operator, key, value] of conditions) block[operator] = { ...block[operator], [key]: value };
  return {
    Statement: {
      Effect: "Allow",
      Principal: /\.amazonaws\.com$/.test(principal) ? { Service: principal } : { AWS: principal },
      Action: Action ?? "lambda:InvokeFunction",
      ...(conditions.length === 0 ? {} : { Condition: block }),
    },
  };
}

/** Keys of KMS would need grants that nobody here asks for. Those of the database are its own affair. */
function refuseKeys(template: DeployedTemplate): void {
  const keys = { "AWS::SQS::Queue": "KmsMasterKeyId", "AWS::SecretsManager::Secret": "KmsKeyId" };
  for (const [type, property] of Object.entries(keys)) {
    for (const { id, properties } of template.ofType(type)) {
      const value = properties[property];
      if (value === undefined) continue;
      const why = "calls to KMS are not judged";
      throw new LocalError("PROPERTY_UNSUPPORTED", { id, property, value: JSON.stringify(value), why });
    }
  }
}

/** Logical ids by ARN, so that a refusal can name what stands in the template. */
export function namesOf(template: DeployedTemplate): ReadonlyMap<string, string> {
  const named = (type: string, attribute?: string) =>
    template.idsOfType(type).map((id): [string, string] => [template.valueOf(id, attribute), id]);
  return new Map([
    ...named("AWS::SQS::Queue", "Arn"),
    ...named("AWS::Lambda::Function", "Arn"),
    ...named("AWS::SecretsManager::Secret"),
    ...named("AWS::RDS::DBCluster", "DBClusterArn"),
    ...named("AWS::IAM::Role", "Arn"),
    ...template.ofType("AWS::Logs::LogGroup").map(({ id, name }): [string, string] => [logGroupArn(name), id]),
  ]);
}

const logGroupArn = (name: string) => `arn:aws:logs:${REGION}:${ACCOUNT_ID}:log-group:${name}`;
