import { describe, expect, test } from "vitest";
import { parseCondition } from "../../../../infra/local/iam/conditions.ts";
import { Policies } from "../../../../infra/local/iam/policies.ts";

const ARN = "arn:aws:events:us-east-1:000000000000:rule/every-minute";
const holds = (block: object, context: Record<string, string> = {}) =>
  parseCondition("Policy", block as never)(context);
/** Whether an operator holds for a value of aws:SourceArn, and for none. */
const source = (operator: string, value: unknown, actual = ARN) => [
  holds({ [operator]: { "aws:SourceArn": value } }, { "aws:sourcearn": actual }),
  holds({ [operator]: { "aws:SourceArn": value } }),
];

test.each<[string, unknown, boolean, boolean]>([
  // operator, value, for the ARN, without any value
  ["StringEquals", ARN, true, false],
  ["StringEquals", ["x", ARN], true, false],
  ["StringEquals", ARN.toUpperCase(), false, false],
  ["StringEquals", `${ARN.slice(0, -1)}*`, false, false],
  ["StringNotEquals", ARN, false, true],
  ["StringNotEquals", ["x", ARN], false, true],
  ["StringNotEquals", ["x", "y"], true, true],
  ["StringEqualsIgnoreCase", ARN.toUpperCase(), true, false],
  ["StringNotEqualsIgnoreCase", ARN.toUpperCase(), false, true],
  ["StringLike", "arn:*:rule/every-minut?", true, false],
  ["StringLike", "arn:*:rule/every", false, false],
  ["StringNotLike", "arn:*", false, true],
  ["StringNotLike", "x*", true, true],
  ["ArnEquals", "arn:aws:events:*:*:rule/every-*", true, false],
  ["ArnLike", ARN, true, false],
  ["ArnLike", "arn:aws:*:rule/every-minute", false, false],
  ["ArnLike", "arn:aws:events:us-east-1:111111111111:rule/every-minute", false, false],
  ["ArnNotEquals", ARN, false, true],
  ["ArnNotLike", "arn:aws:events:*:*:rule/other", true, true],
  ["StringEqualsIfExists", ARN, true, true],
  ["StringEqualsIfExists", "x", false, true],
  ["ArnLikeIfExists", "arn:aws:s3:*:*:*", false, true],
  ["ForAnyValue:StringEquals", [ARN, "x"], true, false],
  ["ForAnyValue:StringEquals", "x", false, false],
  ["ForAnyValue:StringNotEquals", "x", true, false],
  ["ForAnyValue:StringEqualsIfExists", "x", false, false],
  ["ForAllValues:StringLike", "arn:*", true, true],
  ["ForAllValues:StringLike", "x*", false, true],
  ["Null", "true", false, true],
  ["Null", "false", true, false],
])("%s %j: %s, absent: %s", (operator, value, present, absent) => {
  expect(source(operator, value)).toEqual([present, absent]);
});

test("an asterisk in an ARN does not reach over a colon between its parts, but over those of its last", () => {
  const fn = "arn:aws:lambda:us-east-1:000000000000:function:fetcher";
  expect(source("ArnLike", "arn:aws:lambda:us-east-1:*:fetcher", fn)[0]).toBe(false);
  expect(source("StringLike", "arn:aws:lambda:us-east-1:*:fetcher", fn)[0]).toBe(true);
  expect(source("ArnLike", "arn:aws:lambda:us-east-1:*:*:fetcher", fn)[0]).toBe(true);
});

test("Bool compares true and false, in any case and as JSON has them", () => {
  const secure = (value: unknown, actual: string) =>
    holds({ Bool: { "aws:SecureTransport": value } }, { "aws:securetransport": actual });
  expect([secure("true", "true"), secure("TRUE", "true"), secure(true, "true")]).toEqual([true, true, true]);
  expect([secure("false", "true"), secure("true", "false")]).toEqual([false, false]);
  expect(holds({ BoolIfExists: { "aws:SecureTransport": "false" } })).toBe(true);
});

test("all operators and all keys of a block have to hold; keys are read in any case", () => {
  const context = { "aws:sourcearn": ARN, "aws:requestedregion": "us-east-1" };
  const block = (region: string, arn: string) => ({
    StringEquals: { "AWS:RequestedRegion": region, "aws:sourceARN": ARN },
    ArnLike: { "aws:SourceArn": arn },
  });
  expect(holds(block("us-east-1", "arn:aws:events:*:*:*"), context)).toBe(true);
  expect(holds(block("eu-west-1", "arn:aws:events:*:*:*"), context)).toBe(false);
  expect(holds(block("us-east-1", "arn:aws:s3:*:*:*"), context)).toBe(false);
});

describe("a call has", () => {
  const FN = "arn:aws:lambda:us-east-1:000000000000:function:worker";
  const caller = { role: "Worker", session: "worker", functionArn: FN };
  const allowed = (Condition: object, need = {}) => {
    const all = new Policies();
    all.addToRole("Worker", "P", { Statement: [{ Effect: "Allow", Action: "*", Resource: "*", Condition }] as never });
    return all.judge(caller, { action: "sqs:SendMessage", resource: "arn:x", ...need }).refused === undefined;
  };

  test.each<[string, string, string]>([
    ["Bool", "aws:SecureTransport", "true"],
    ["StringEquals", "aws:RequestedRegion", "us-east-1"],
    ["StringEquals", "aws:PrincipalAccount", "000000000000"],
    ["StringEquals", "aws:ResourceAccount", "000000000000"],
    ["StringEquals", "aws:PrincipalType", "AssumedRole"],
    ["Bool", "aws:PrincipalIsAWSService", "false"],
    ["ArnEquals", "aws:PrincipalArn", "arn:aws:iam::000000000000:role/Worker"],
    ["ArnEquals", "lambda:SourceFunctionArn", FN],
  ])("%s %s = %s", (operator, key, value) => {
    expect(allowed({ [operator]: { [key]: value } })).toBe(true);
    expect(allowed({ [operator]: { [key]: "other:x:x:x:x:x" } })).toBe(false);
    expect(allowed({ Null: { [key]: "false" } })).toBe(true);
  });

  test("no source of a service, unless a service makes it", () => {
    expect(allowed({ Null: { "aws:SourceArn": "true" } })).toBe(true);
    expect(allowed({ ArnLike: { "aws:SourceArn": ARN } }, { context: { "aws:sourcearn": ARN } })).toBe(true);
  });

  test("a queue that asks for TLS lets it pass, and refuses what comes without", () => {
    const deny = { Effect: "Deny", Principal: { AWS: "*" }, Action: "sqs:*", Resource: "arn:q" };
    const judge = (secure: string) => {
      const all = new Policies();
      all.addToRole("Worker", "P", { Statement: [{ Effect: "Allow", Action: "*", Resource: "*" }] });
      const Condition = { Bool: { "aws:SecureTransport": secure } };
      all.addToResource("arn:q", "Q", { Statement: [{ ...deny, Condition }] });
      return all.judge(caller, { action: "sqs:SendMessage", resource: "arn:q" }).refused;
    };
    expect(judge("false")).toBeUndefined();
    expect(judge("true")).toBe("deniedByResource");
  });
});
